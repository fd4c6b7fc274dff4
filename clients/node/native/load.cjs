"use strict";
// Loads the native module: the file of a source checkout, else the package of the platform.
const { existsSync } = require("node:fs");
const { join } = require("node:path");

/** The name of this platform in files and packages, such as `linux-x64-gnu`. */
function platformName() {
  const { platform, arch } = process;
  if (platform !== "linux") return `${platform}-${arch}`;

  // The report would otherwise resolve the name of every peer of this process.
  const { report } = process;
  const { excludeNetwork } = report;
  report.excludeNetwork = true;
  const { header } = report.getReport();
  report.excludeNetwork = excludeNetwork;
  return `linux-${arch}-${header.glibcVersionRuntime === undefined ? "musl" : "gnu"}`;
}

function load() {
  const platform = platformName();
  const file = join(__dirname, `tollgate.${platform}.node`);
  const packageName = `@tollgate/${platform}`;
  try {
    // The names are computed, so that bundlers do not look for packages of other platforms.
    return { platform, module: require(existsSync(file) ? file : packageName) };
  } catch (error) {
    return { platform, error };
  }
}

module.exports = { load, platformName };
