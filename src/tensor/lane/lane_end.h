/* lane_end.h: takes back the names of lane_real.h and of what included it, for the next instruction set. */
#undef FN
#undef VEC
#undef MASK
#undef LANES
#undef LANE
#undef SELECT
#undef NAME
#undef TARGET
#undef WIDTH
