module floodmark

go 1.26.0
