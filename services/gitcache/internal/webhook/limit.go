// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

const (
	// sourceRate and sourceBurst bound what one address sends, in deliveries a second. A Git host
	// sends the deliveries of all its repositories from few addresses, and a load balancer all of them
	// from one.
	sourceRate, sourceBurst = 20, 300
	// targetRate and targetBurst bound the deliveries about one repository. Those within the
	// debounce time share a fetch.
	targetRate, targetBurst = 1, 30
	// maxLimits bounds the addresses or repositories that are kept in mind.
	maxLimits = 10_000
)

// limits is one limit for each of many keys. It forgets the oldest ones: memory is bounded first,
// and their allowance is the first to be whole again, like a new one's.
type limits struct {
	rate  rate.Limit
	burst int

	mu    sync.Mutex
	byKey *lru.Cache[string, *rate.Limiter]
}

func newLimits(perSecond rate.Limit, burst int) *limits {
	byKey, _ := lru.New[string, *rate.Limiter](maxLimits) // fails only for a limit that is not positive
	return &limits{rate: perSecond, burst: burst, byKey: byKey}
}

// take takes one from the key's allowance. It returns zero, or how long to wait where nothing is
// left.
func (l *limits) take(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, ok := l.byKey.Get(key)
	if !ok {
		limiter = rate.NewLimiter(l.rate, l.burst)
		l.byKey.Add(key, limiter)
	}
	r := limiter.Reserve()
	wait := r.Delay()
	if wait > 0 {
		r.Cancel()
	}
	return wait
}

// sourceOf names where a request comes from. One holder of an IPv6 network has all addresses of its
// last 64 bits.
func sourceOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := from.Addr().Unmap()
	if addr.Is6() {
		return netip.PrefixFrom(addr.WithZone(""), 64).Masked().String()
	}
	return addr.String()
}
