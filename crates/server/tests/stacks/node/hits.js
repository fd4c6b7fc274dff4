// Counts the requests that reached the login, by identity.

const hits = {};

// Records one hit, and returns the body of the login's response.
export function hit({ session, key, token, user }) {
  const identity = `session=${session ?? "-"} key=${key ?? "-"} token=${token ?? "-"} user=${user ?? "-"}`;
  hits[identity] = (hits[identity] ?? 0) + 1;
  return `login ${identity}\n`;
}

export function all() {
  return hits;
}

// The token of an Authorization header.
export function bearer(header) {
  const [scheme, token] = (header ?? "").trim().split(/\s+/);
  return scheme?.toLowerCase() === "bearer" ? token : undefined;
}
