// Limits every request to /api by the address of the client.
import { tollgateProxy } from "tollgate/next";
import { limiter } from "./limiter";

export const proxy = tollgateProxy({
  client: limiter,
  limits: "api",
  // Next does not know the address of the connection. One proxy, such as a load balancer, is before
  // this application and appends to X-Forwarded-For.
  clientAddress: { proxyCount: 1 },
});

export const config = { matcher: "/api/:path*" };
