// No framework: the request's target is read with `new URL`, as many small servers do.
import { createServer } from "node:http";

import { all, bearer, hit } from "./hits.js";

function cookie(header, name) {
  for (const pair of (header ?? "").split(";")) {
    const end = pair.indexOf("=");
    if (end >= 0 && pair.slice(0, end).trim() === name) return decodeURIComponent(pair.slice(end + 1).trim());
  }
}

createServer((request, response) => {
  let url;
  try {
    url = new URL(request.url, "http://localhost");
  } catch {
    response.writeHead(400).end("bad target\n");
    return;
  }
  if (url.pathname === "/hits") {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(all()));
  } else if (url.pathname === "/auth/login") {
    let session;
    try {
      session = cookie(request.headers.cookie, "session");
    } catch {}
    const body = hit({
      session,
      key: request.headers["x-api-key"],
      token: bearer(request.headers.authorization),
      user: url.searchParams.get("user"),
    });
    response.writeHead(200, { "content-type": "text/plain" }).end(body);
  } else {
    response.writeHead(404).end("not found\n");
  }
}).listen(Number(process.argv[2]), "127.0.0.1");
