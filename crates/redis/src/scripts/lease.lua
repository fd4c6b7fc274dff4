-- Units on lease: a take settles what a process holds, spends its cost, and is given units beyond it.
--
-- Numbers: most, 1 if they are lent (0: spent already), generation, held, keep, back, part of back, period.
-- Counter: of a bucket with units on lease, six numbers after its own: when the young generation began, units out in it,
--          the same of the old one, and the rate (period, per) by which units weigh. At any time
--          what is left in the bucket + what is out <= its capacity.
--          Of a window nothing: units count as spent when they are given, and end with the window, which is their name.
-- Told:    as by the algorithm, once it is settled; units given; the name of what is held now, -1 less it if what was
--          held before is not known any more.
most, is_lent, generation, held, keep, back, back_part, period, at = read('<dddddddd', question, at)
