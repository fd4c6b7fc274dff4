import { Readable } from "node:stream";
import express, { type ErrorRequestHandler } from "express";
import { tollgate } from "../../src/adapters/express.js";
import { testFramework } from "./behaviour.js";
import { customDenial, listen, type Framework } from "./harness.js";
import { testPeers } from "./peers.js";

const framework: Framework = {
  name: "express",
  releases: "at once",
  async start(cleanup, { options, onError, hold, chunks, endless }) {
    const { onDenied, ...shared } = options;
    const app = express();
    app.use(
      tollgate({
        ...shared,
        ...(onDenied && {
          onDenied: (denial, _request, response) => {
            response.status(denial.status).send(customDenial(denial));
          },
        }),
      }),
    );

    app.get("/", (_request, response) => response.send("hello"));
    app.get("/fail", () => { throw new Error("failed on purpose"); });
    app.get("/slow", async (_request, response) => {
      await hold();
      response.send("slow");
    });
    app.get("/stream", (request, response) => {
      Readable.from(chunks(request.tollgate)).pipe(response);
    });

    app.get("/endless", (request, response) => {
      Readable.from(endless(request.tollgate)).pipe(response);
    });

    const handleError: ErrorRequestHandler = (error, _request, response, _next) => {
      onError(error);
      response.status(500).send("failed");
    };
    app.use(handleError);
    return listen(cleanup, app);
  },
};

testFramework(framework);
testPeers(framework);
