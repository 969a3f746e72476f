/*
** dormand_prince.h: the coefficients of the Runge-Kutta pair DOPRI5 of Dormand & Prince (1980), order 5 with an error
** estimate of order 4, and of its interpolant of order 4 (Shampine 1986). Hairer, Norsett & Wanner, Solving Ordinary
** Differential Equations I, table II.5.2 and section II.6. Stage 7 is stage 1 of the next step.
*/
#ifndef PN_AUTODIFF_ODE_DORMAND_PRINCE_H
#define PN_AUTODIFF_ODE_DORMAND_PRINCE_H

enum { STAGES = 7 };

static const double NODE[STAGES] = {0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1, 1};

/* The last row is that of the new value. */
static const double WEIGHT[STAGES][STAGES - 1] = {
    {0},
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84}};

/* The value of order 5 less that of order 4. */
static const double ERROR[STAGES] = {71.0 / 57600,      0,          -71.0 / 16695, 71.0 / 1920,
                                     -17253.0 / 339200, 22.0 / 525, -1.0 / 40};

/* With s in [0, 1] the place within the step, r = 1 - s, slopes k and the new value y1:
 *   y(s) = y + s^2 (3 - 2 s) (y1 - y) + h (s r^2 k_1 - s^2 r k_7 + s^2 r^2 sum_j DENSE_j k_j) */
static const double DENSE[STAGES] = {-12715105075.0 / 11282082432,  0,
                                     87487479700.0 / 32700410799,   -10690763975.0 / 1880347072,
                                     701980252875.0 / 199316789632, -1453857185.0 / 822651844,
                                     69997945.0 / 29380423};

#endif
