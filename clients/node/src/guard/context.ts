/** What functions of the options can ask about a request. */
import type { ClientResolver, Sender } from "../client-address.js";
import type { RequestContext, RequestView } from "./types.js";

export class GuardContext<R> implements RequestContext, Sender {
  constructor(
    private readonly request: R,
    private readonly view: RequestView<R>,
    private readonly clients: ClientResolver,
  ) {}

  get peer(): string | undefined {
    return this.view.peer(this.request);
  }

  clientAddress(): string {
    return this.clients.key(this);
  }

  header(name: string): string | undefined {
    const value = this.view.header(this.request, name.toLowerCase());
    const text = (typeof value === "object" ? value.join(", ") : value)?.trim();
    return text === "" ? undefined : text;
  }
}
