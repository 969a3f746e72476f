/*
** rosenbrock.h: the coefficients of RODAS, a Rosenbrock method of order 4 with an error estimate of order 3: six
** stages, L-stable and stiffly accurate, with an interpolant of order 3. Hairer & Wanner, Solving Ordinary Differential
** Equations II, section VI.4 (and their program rodas.f). With J = df/dy, f_t = df/dt at (t, y), solve in turn
**   (I / (h GAMMA) - J) u_i = f(t + PLACE_i h, y + sum_j STAGE_ij u_j) + sum_j COUPLING_ij u_j / h + h IN_TIME_i f_t
** The new value is y + sum_j LAST_j u_j, its error u_6: the stage before it is the value of order 3.
*/
#ifndef PN_AUTODIFF_ODE_ROSENBROCK_H
#define PN_AUTODIFF_ODE_ROSENBROCK_H

enum { SOLVES = 6 };

static const double GAMMA = 0.25;

static const double PLACE[SOLVES] = {0, 0.386, 0.21, 0.63, 1, 1};

static const double IN_TIME[SOLVES] = {0.25, -0.1043, 0.1035, -0.03620000000000023, 0, 0};

static const double STAGE[SOLVES][SOLVES] = {
    {0},
    {1.544},
    {0.9466785280815826, 0.2557011698983284},
    {3.314825187068521, 2.896124015972201, 0.9986419139977817},
    {1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950},
    {1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1}};

static const double LAST[SOLVES] = {1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1, 1};

static const double COUPLING[SOLVES][SOLVES] = {
    {0},
    {-5.6688},
    {-2.430093356833875, -0.2063599157091915},
    {-0.1073529058151375, -9.594562251023355, -20.47028614809616},
    {7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160},
    {8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054}};

/* With s in [0, 1] the place within the step, r = 1 - s and y1 the new value:
 *   y(s) = r y + s y1 + s r sum_j (BEND_0j + s BEND_1j) u_j */
static const double BEND[2][SOLVES] = {
    {10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823, 1.025137723295662, 0},
    {-0.6762803392801253, 6.087714651680015, 16.43084320892478, 24.76722511418386, -6.594389125716872, 0}};

#endif
