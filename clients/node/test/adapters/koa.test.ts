import { Readable } from "node:stream";
import Koa from "koa";
import { tollgate, type AdmittedRequest } from "../../src/adapters/koa.js";
import { testFramework } from "./behaviour.js";
import { customDenial, listen, type Framework } from "./harness.js";
import { testPeers } from "./peers.js";

const framework: Framework = {
  name: "koa",
  releases: "at once",
  async start(cleanup, { options, onError, hold, chunks, endless }) {
    const { onDenied, ...shared } = options;
    const app = new Koa<{ tollgate?: AdmittedRequest }>();
    app.on("error", onError);
    app.use(
      tollgate({
        ...shared,
        ...(onDenied && {
          onDenied: (denial, context) => {
            context.status = denial.status;
            context.body = customDenial(denial);
          },
        }),
      }),
    );

    app.use(async (context) => {
      if (context.path === "/fail") throw new Error("failed on purpose");
      if (context.path === "/slow") await hold();
      const admitted = context.state.tollgate;
      context.body = "hello";
      if (context.path === "/stream") context.body = Readable.from(chunks(admitted));
      if (context.path === "/endless") context.body = Readable.from(endless(admitted));
    });
    return listen(cleanup, app.callback());
  },
};

testFramework(framework);
testPeers(framework);
