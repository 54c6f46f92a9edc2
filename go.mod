module github.com/mix-basic/delayer

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/gomodule/redigo v1.9.3
	github.com/sevlyar/go-daemon v0.1.7
	golang.org/x/sys v0.17.0
	gopkg.in/ini.v1 v1.67.3
)

require (
	github.com/kardianos/osext v0.0.0-20190222173326-2bc1f35cddc0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
)
