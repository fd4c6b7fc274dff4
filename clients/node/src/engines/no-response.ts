/** Says in words why the service did not answer, as far as the error of the runtime tells. */

/** By the codes and messages of errors of Node, Bun and Deno. */
const REASONS: readonly [codes: RegExp, reason: string][] = [
  [/^ECONNREFUSED$/, "the connection was refused: is the service running at this address?"],
  [/^(?:ENOTFOUND|EAI_AGAIN)$/, "the host name is unknown"],
  [
    /SELF_SIGNED|UNABLE_TO_(?:GET_ISSUER|VERIFY)|UnknownIssuer|UNKNOWN_CERTIFICATE/,
    "its certificate is from an authority that this process does not know: set " +
      "NODE_EXTRA_CA_CERTS to the file of that authority",
  ],
  [/CERT_HAS_EXPIRED|CERT_NOT_YET_VALID/, "its certificate is not valid at this time"],
  [/ALTNAME_INVALID|NotValidForName/, "its certificate is for another host name"],
  [
    /^EPROTO$|WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG/,
    'it does not speak TLS there: write "http://" in `url`, or use the port with TLS',
  ],
  [/^HPE_/, 'it does not answer in HTTP there: if the service uses TLS, write "https://" in `url`'],
];
/** The most causes that are followed. */
const DEPTH_MAX = 8;
/** Nothing came back on a plain connection. */
const CLOSED = /^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET)$/;

/** The reason of an error, and the error's own text. */
export function reasonOf(error: unknown, url: URL): string {
  const { message, code } = innermost(error);
  const known = REASONS.find(([codes]) => codes.test(code) || codes.test(message));
  if (known !== undefined) return `${known[1]} (${message})`;
  if (url.protocol === "http:" && CLOSED.test(code)) {
    return `it closed the connection: if the service uses TLS, write "https://" (${message})`;
  }
  return message;
}

/** The error at the end of the causes: `fetch` wraps those of the connection. */
function innermost(error: unknown): { message: string; code: string } {
  let inner = error;
  const isWrapped = (): boolean => inner instanceof Error && inner.cause instanceof Error;
  for (let depth = 0; depth < DEPTH_MAX && isWrapped(); depth += 1) inner = (inner as Error).cause;
  if (!(inner instanceof Error)) return { message: String(inner), code: "" };
  const { code } = inner as NodeJS.ErrnoException;
  // Without a message: several addresses were tried, each with an error of its own.
  const message = inner.message === "" ? (code ?? inner.name) : inner.message;
  return { message, code: String(code) };
}
