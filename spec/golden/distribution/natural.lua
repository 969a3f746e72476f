-- Written by make_composite.py.
return {
  scalar = {eta = 0.7, lam = 1.6, log_normaliser = 0.8370617185818051, expected_log = -0.37400000000000005, loc = 0.3, scale = 0.8},
  full = {eta = {0.7, -0.4}, lam = {{1.5, 0.3}, {0.3, 0.8}}, log_normaliser = 2.146057419107471, expected_log = -1.4299999999998376, loc = {0.2, -0.5}, covariance = {{1.0, 0.4}, {0.4, 2.0}}},
  experts = {list = {{0.8, 0.5}, {-0.3, 0.7}, {1.5, 0.9}}, mean = 0.8415703505587927, variance = 0.1895596523068106},
  renyi_numbers = {{order = 0.1, value = 0.06333839430110265}, {order = 0.5, value = 0.21865058845665714}, {order = 0.99, value = 0.3183058540852316}, {order = 1.01, value = 0.32133401397376693}, {order = 2.0, value = 0.42272523683752367}, {order = 2.5, value = 0.4535931166152394}},
  renyi_vectors = {{order = 0.3, value = 0.18034008701264656}, {order = 0.5, value = 0.31366027503431687}, {order = 1.5, value = 1.8850651158240406}},
  jensen_shannon = 0.09225793069997695,
  kl = 0.31982734240891963,
}
