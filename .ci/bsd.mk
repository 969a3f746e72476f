.error This is a Makefile for GNU make: call it as gmake (FreeBSD: pkg install gmake)
