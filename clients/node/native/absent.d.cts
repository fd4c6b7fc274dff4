/** The native module, or why it cannot be loaded. */
export function load(): { platform: string; module?: unknown; error?: unknown };
