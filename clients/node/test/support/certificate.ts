/** A certificate that no authority has signed. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Cleanup, temporaryDirectory } from "./process.js";

/** Makes one for this test; needs the program openssl. */
export function selfSigned(cleanup: Cleanup): { key: string; cert: string } {
  const directory = temporaryDirectory(cleanup);
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
  const files = ["-keyout", key, "-out", cert];
  const kind = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"];
  const { status, stderr } = spawnSync("openssl", ["req", "-x509", ...kind, ...files]);
  if (status !== 0) throw new Error(`openssl failed: ${String(stderr)}`);
  return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
}
