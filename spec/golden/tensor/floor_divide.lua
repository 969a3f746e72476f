-- made by floor_divide.py
return {
  floor_divide = {
    whole = {{0x7, 2, 0x3}, {0xfffffffffffffff9, 2, 0xfffffffffffffffc}, {0x7, -2, 0xfffffffffffffffc}, {0xfffffffffffffff9, -2, 0x3}, {0x6, 3, 0x2}, {0xfffffffffffffffa, 3, 0xfffffffffffffffe}, {0x0, 5, 0x0}, {0x4000000000000000, 3, 0x1555555555555555}, {0x8000000000000000, 7, 0xedb6db6db6db6db6}, {0x8000000000000000, 2, 0xc000000000000000}},
    real = {{7.5, 2.0, 3.0}, {-7.5, 2.0, -4.0}, {7.5, -2.0, -4.0}, {1.0, 0.1, 10.0}, {-1e+300, 1e-05, -1e+305}, {0.3, 0.1, 2.0}, {5.0, math.huge, 0.0}, {1e+16, 3.0, 3333333333333333.0}},
  },
}
