// A route handler with a limit of its own, by API key.
import { by, withTollgate } from "tollgate/next";
import { limiter } from "../../../limiter";

const limits = { limit: "greetings", key: by.header("x-api-key"), onMissingKey: 401 } as const;

export const GET = withTollgate({ client: limiter, limits }, (_request, _context, admitted) => {
  const remaining = admitted.decision?.limits[0]?.remaining;
  return Response.json({ hello: "world", remaining });
});
