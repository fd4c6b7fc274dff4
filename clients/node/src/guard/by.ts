/** Keys that work in every framework. */
import type { KeyFunction } from "./types.js";

/** What limits count by. Any function of the request will do as well. */
export const by = {
  /** The address of the client behind trusted proxies; of IPv6 the network. The default. */
  clientAddress(): KeyFunction<unknown> {
    return (_request, context) => context.clientAddress();
  },

  /** The value of a header. Requests without it follow `onMissingKey`. */
  header(name: string): KeyFunction<unknown> {
    const lower = name.toLowerCase();
    return (_request, context) => context.header(lower);
  },

  /** All requests share one counter, on purpose. */
  everyone(): KeyFunction<unknown> {
    return () => "everyone";
  },
};
