-- Written by two_sensors.py.
return {
  fused_mean = 0.2428571428571429,
  fused_variance = 0.2857142857142857,
  log_evidence = -3.153544264942744,
  information = -0.1986285001452612,
  conflict_12 = 11.57048067685015,
  conflict_21 = 1.900522357123366,
  ind = -3.647090860047858,
  ind_gap = 0.4935465951051147,
  moe = -3.483128245482658,
  moe_limit = -3.167213103220771,
}
