import cookieParser from "cookie-parser";
import express from "express";

import { all, bearer, hit } from "./hits.js";

const app = express();
app.use(cookieParser());
app.get("/hits", (_request, response) => response.json(all()));
app.all("/auth/login", (request, response) => {
  const body = hit({
    session: request.cookies.session,
    key: request.get("x-api-key"),
    token: bearer(request.get("authorization")),
    user: request.query.user,
  });
  response.type("text/plain").send(body);
});
app.listen(Number(process.argv[2]), "127.0.0.1");
