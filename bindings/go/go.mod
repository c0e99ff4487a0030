module esker

go 1.23
