module github.com/leatdev/leat/test

go 1.26.0

require (
	github.com/leatdev/leat/gen v0.0.0
	github.com/leatdev/leat/internal v0.0.0
	github.com/leatdev/leat/services/agent v0.0.0
	github.com/leatdev/leat/services/distributor v0.0.0
	github.com/leatdev/leat/services/gitcache v0.0.0
	github.com/leatdev/leat/services/tunnel v0.0.0
)

require (
	github.com/compose-spec/compose-go/v2 v2.16.2 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
)

replace (
	github.com/leatdev/leat/gen => ../gen
	github.com/leatdev/leat/internal => ../internal
	github.com/leatdev/leat/services/agent => ../services/agent
	github.com/leatdev/leat/services/distributor => ../services/distributor
	github.com/leatdev/leat/services/gitcache => ../services/gitcache
	github.com/leatdev/leat/services/tunnel => ../services/tunnel
)
