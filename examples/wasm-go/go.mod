module example.com/render

go 1.26.0
