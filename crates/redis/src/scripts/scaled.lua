-- Computes a * b / c, rounded up, for integers up to 2^53 and a result below 2^53. Also returns it
-- rounded down, and the remainder.
scaled = scaled or function(a, b, c)
  local product = a * b
  if product < EXACT then
    local remainder = product % c
    return ceil(product / c), (product - remainder) / c, remainder
  end

  -- Another program may have written infinity: the loops end nevertheless.
  b = b < EXACT and b or EXACT

  -- Multiply by doubling and adding. The remainder stays below c, so no number exceeds 2^53.
  local whole, rest, quotient, remainder = math.floor(a / c), a % c, 0, 0

  local bit = 1
  while bit * 2 <= b do
    bit = bit * 2
  end
  while bit >= 1 do
    quotient = quotient * 2
    if remainder >= c - remainder then
      remainder, quotient = remainder - (c - remainder), quotient + 1
    else
      remainder = remainder * 2
    end
    if b >= bit then
      b = b - bit
      quotient = quotient + whole
      if remainder >= c - rest then
        remainder, quotient = remainder - (c - rest), quotient + 1
      else
        remainder = remainder + rest
      end
    end
    bit = bit / 2
  end
  return remainder > 0 and quotient + 1 or quotient, quotient, remainder
end
