/*
** rosenbrock.h: the coefficients of RODASP, a Rosenbrock method of order 4 with an error estimate of order 3: six
** stages, L-stable and stiffly accurate, with an interpolant of order 3, made so that little order is lost on stiff
** equations. Steinebach, Order reduction of ROW methods for DAEs and method of lines applications (1995); the family
** is that of RODAS in Hairer & Wanner, Solving Ordinary Differential Equations II, section VI.4 (their program rodas.f
** has both). With J = df/dy, f_t = df/dt at (t, y), solve in turn
**   (I / (h GAMMA) - J) u_i = f(t + PLACE_i h, y + sum_j STAGE_ij u_j) + sum_j COUPLING_ij u_j / h + h IN_TIME_i f_t
** The new value is y + sum_j LAST_j u_j, its error u_6: the stage before it is the value of order 3.
*/
#ifndef PN_AUTODIFF_ODE_ROSENBROCK_H
#define PN_AUTODIFF_ODE_ROSENBROCK_H

enum { SOLVES = 6 };

static const double GAMMA = 0.25;

static const double PLACE[SOLVES] = {0, 0.75, 0.21, 0.63, 1, 1};

static const double IN_TIME[SOLVES] = {0.25, -0.5, -0.023504, -0.0362, 0, 0};

static const double STAGE[SOLVES][SOLVES] = {
    {0},
    {3},
    {1.831036793486759, 0.4955183967433795},
    {2.304376582692669, -0.05249275245743001, -1.176798761832782},
    {-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401},
    {-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401, 1}};

static const double LAST[SOLVES] = {
    -7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401, 1, 1};

static const double COUPLING[SOLVES][SOLVES] = {
    {0},
    {-12},
    {-8.791795173947035, -2.207865586973518},
    {10.81793056857153, 6.780270611428266, 19.5348594464241},
    {34.19095006749676, 15.49671153725963, 54.7476087596413, 14.16005392148534},
    {34.62605830930532, 15.30084976114473, 56.99955578662667, 18.40807009793095, -5.714285714285717}};

/* With s in [0, 1] the place within the step, r = 1 - s and y1 the new value:
 *   y(s) = r y + s y1 + s r sum_j (BEND_0j + s BEND_1j) u_j */
static const double BEND[2][SOLVES] = {
    {25.09876703708589, 11.62013104361867, 28.49148307714626, -5.664021568594133},
    {1.638054557396973, -0.7373619806678748, 8.47791821923899, 15.9925314877952, -1.882352941176471}};

#endif
