// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/services/tunnel/internal/fanin"
	"github.com/leatdev/leat/services/tunnel/internal/quota"
)

// Values of [Load.WatchFanIn].
const (
	fanInOn  = "on"
	fanInOff = "off"
)

// Load says how clusters are spared and how much may be moved.
type Load struct {
	// WatchFanIn is on or off: whether viewers of one watch share one watch of the cluster. Empty means on.
	WatchFanIn string
	// WatchFanInMemory bounds what is kept to serve them. Zero means 64 MiB.
	WatchFanInMemory config.Bytes
	// MaxBytesPerUser and MaxBytesPerCluster bound what may be moved within QuotaWindow. Zero means that nothing does.
	MaxBytesPerUser    config.Bytes
	MaxBytesPerCluster config.Bytes
	// QuotaWindow is how long bytes count. Zero means an hour.
	QuotaWindow time.Duration
}

// Bind binds the fields.
func (l *Load) Bind(s *config.Set) {
	s.Choice(&l.WatchFanIn, "tunnel-watch-fan-in", fanInOn,
		"whether many viewers of one watch, under one identity, cost the cluster one watch", fanInOn, fanInOff)
	s.Size(&l.WatchFanInMemory, "tunnel-watch-fan-in-memory", 64<<20, "memory for what shared watches have shown, from which late viewers are served")
	s.Size(&l.MaxBytesPerUser, "tunnel-max-bytes-per-user", 0,
		"bytes that one person may move through a replica within the quota window; then new requests are answered 429; 0: no limit")
	s.Size(&l.MaxBytesPerCluster, "tunnel-max-bytes-per-cluster", 0,
		"bytes that may be moved to and from one cluster through a replica within the quota window; 0: no limit")
	s.Duration(&l.QuotaWindow, "tunnel-quota-window", time.Hour, "how long moved bytes count")
}

func (l *Load) check() error {
	switch {
	case l.WatchFanIn != "" && l.WatchFanIn != fanInOn && l.WatchFanIn != fanInOff:
		return fmt.Errorf("--tunnel-watch-fan-in must be on or off, not %q", l.WatchFanIn)
	case min(l.WatchFanInMemory, l.MaxBytesPerUser, l.MaxBytesPerCluster) < 0:
		return errors.New("--tunnel-watch-fan-in-memory, --tunnel-max-bytes-per-user and --tunnel-max-bytes-per-cluster must not be negative")
	case l.QuotaWindow != 0 && l.QuotaWindow < time.Minute:
		return fmt.Errorf("--tunnel-quota-window must be at least 1m, not %v", l.QuotaWindow)
	}
	return nil
}

// fanIn returns what shares watches, or nil when it is off.
func (l *Load) fanIn(meter metric.Meter) (*fanin.Relay, error) {
	if l.WatchFanIn == fanInOff {
		return nil, nil
	}
	relay := fanin.New(fanin.Params{TotalBytes: int(l.WatchFanInMemory)})
	return relay, relay.Observe(meter)
}

// quota returns what counts bytes.
func (l *Load) quota(meter metric.Meter) (*quota.Ledger, error) {
	ledger := quota.New(quota.Params{
		UserBytes: int64(l.MaxBytesPerUser), ClusterBytes: int64(l.MaxBytesPerCluster), Window: l.QuotaWindow,
	})
	return ledger, ledger.Observe(meter)
}
