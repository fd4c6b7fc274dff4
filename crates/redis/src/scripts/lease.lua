-- Lease call: settles the lease of an instance, spends the cost of the demand, and grants more
-- units.
--
-- Numbers: most units to grant, 1 if they are leased or 0 if they are already spent, generation of
--          the lease, units held, units to keep, units to return (`back`) and the fraction of that,
--          period. Units held that are neither kept nor returned are spent.
-- Counter: a bucket with leased units has six more numbers: the start of the young generation, the
--          units leased in it, the same for the old generation, and the rate (period, per) by which
--          units are converted to time. At any time
--            units left in the bucket + leased units <= capacity.
--          A window has no more numbers: units count as spent when they are granted, and the lease
--          ends with the window, which is its generation.
-- Reply:   the counter after settling; then the units granted, and the generation of the lease, or
--          -1 - generation if the units held before are no longer known.
most, is_leased, generation, held, keep, back, back_part, period, at =
  read('<dddddddd', arguments, at)
