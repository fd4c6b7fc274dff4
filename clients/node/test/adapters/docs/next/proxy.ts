// proxy.ts
import { tollgateProxy } from "../../../../src/adapters/next.js";
import { client, clientAddress } from "./limiter.js";

export const proxy = tollgateProxy({ client, limits: "api", clientAddress });

export const config = { matcher: "/api/:path*" };
