-- Made by majority_vote.py.
return { values = {
{ risk = 0.2, disagreement = 0.3, kl = 2, n = 1000, delta = 0.05, value = 0.360435702899469255 },
{ risk = 0.1, disagreement = 0.05, kl = 10, n = 3000, delta = 0.01, value = 0.43938704503993009 },
{ risk = 0.3, disagreement = 0.4, kl = 0, n = 5000, delta = 0.1, value = 0.393890622243275587 },
{ risk = 0.05, disagreement = 0.09, kl = 40, n = 20000, delta = 0.05, value = 0.0564496464678554659 },
{ risk = 0.35, disagreement = 0.1, kl = 1, n = 2000, delta = 0.05, value = 0.951470427440915794 },
}, moments = {
{ n = 1, moment = 3.0, allowed = 3.0 },
{ n = 2, moment = 4.5, allowed = 4.5 },
{ n = 8, moment = 12.2450180053710938, allowed = 12.2450180053710938 },
{ n = 20, moment = 26.2935845860009001, allowed = 26.2935845860009001 },
{ n = 60, moment = 70.3877959509490473, allowed = 70.3877959509490473 },
} }
