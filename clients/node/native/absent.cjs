"use strict";
// Takes the place of load.cjs in runtimes without native modules.
module.exports = { load: () => ({ platform: "this runtime" }) };
