-- The start of the next month after a time. Years are counted from March 1, so that the leap day is
-- the last day of a year. Then each month begins at the same day of every year:
-- 0, 31, 61, 92, ... = (153 * month + 2) / 5.
next_month = next_month or function(time)
  local floor, DAY = math.floor, 86400000000
  local day = floor(time / DAY) + 719468
  local era = floor(day / 146097)
  local of_era = day - era * 146097
  local leap_days = floor(of_era / 1460) - floor(of_era / 36524) + floor(of_era / 146096)
  local year = floor((of_era - leap_days) / 365)
  local year_start = year * 365 + floor(year / 4) - floor(year / 100)

  local month = floor((5 * (of_era - year_start) + 2) / 153)
  local start = year_start + floor((153 * (month + 1) + 2) / 5)
  if month == 11 then
    -- After February, the next year begins.
    year = year + 1
    start = year * 365 + floor(year / 4) - floor(year / 100) + floor(year / 400)
  end
  return (era * 146097 + start - 719468) * DAY
end
