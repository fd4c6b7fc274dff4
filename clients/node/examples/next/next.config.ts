import type { NextConfig } from "next";

const config: NextConfig = {
  // Needed for Tollgate.inProcess, whose native module cannot be bundled.
  serverExternalPackages: ["tollgate"],
};

export default config;
