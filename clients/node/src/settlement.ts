/** How reservations end. */
import type { Settlement } from "./types.js";

/** The settlement that the body of an answer contains. */
export function settlementFrom(body: Record<string, unknown>): Settlement {
  const { charged, reservation, warning } = body;
  return {
    charged: charged as number,
    reservation: reservation as Settlement["reservation"],
    ...(typeof warning === "string" && { warning }),
  };
}

/** The settlement of a decision that reserved nothing. */
export function withoutReservation(operation: "settle" | "cancel"): Settlement {
  const warning =
    `\`${operation}\` got a decision without a reservation, so nothing was charged or returned: ` +
    "it was denied, made by a failure policy, or not made by `reserve`";
  return { charged: 0, reservation: "none", warning };
}
