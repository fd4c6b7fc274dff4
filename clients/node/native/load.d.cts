/** The native module, or why it cannot be loaded. */
export function load(): { platform: string; module?: unknown; error?: unknown };
/** The name of this platform in files and packages, such as `linux-x64-gnu`. */
export function platformName(): string;
