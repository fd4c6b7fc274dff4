import type { Context } from "koa";
import type { Tollgate } from "../../../../src/tollgate.js";
import { tollgate } from "../../../../src/adapters/koa.js";

export function limitSearches(client: Tollgate) {
  return tollgate({
    client,
    limits: {
      limit: "search",
      key: (context: Context) => context.get("x-user"),
      cost: ({ path }: Context) => (path === "/search" ? 5 : 1),
      onMissingKey: 401,
    },
    refund: ({ status }) => status >= 500, // our failures are free
  });
}
