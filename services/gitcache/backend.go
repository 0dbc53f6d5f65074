// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache

import (
	"log/slog"

	gitbackend "github.com/leatdev/leat/services/gitcache/internal/backend"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/lfshttp"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// The back ends. They keep mirrors in the same form, so that a data folder can go from one to the
// other.
const (
	// BackendGoGit needs nothing but this program.
	BackendGoGit = "gogit"
	// BackendGit runs the git executable.
	BackendGit = "git"
)

// backend fetches from upstreams, keeps and reads mirrors, and reaches what upstreams have beside
// Git.
type backend interface {
	mirror.Backend
	lfshttp.Upstreams
}

// newBackend opens the mirrors below dir. Credentials may be nil. Root returns the URL of the
// repository with a UID.
func newBackend(
	cfg Config, dir string, credentials uploadpack.Credentials, root func(uid string) (string, bool), logger *slog.Logger,
) (backend, error) {
	hosts := hostgate.New(hostgate.Config{Sessions: cfg.HostSessions, Requests: cfg.HostRequests, Burst: cfg.HostBurst})
	budget, room := memory.NewBudget(int64(cfg.Memory)), int64(cfg.MirrorDisk)
	config := gitbackend.Config{
		Dir: dir, Readers: cfg.Readers, Hosts: hosts, Guard: cfg.guard(), Root: root, Credentials: credentials,
		Memory: budget, MirrorDisk: room, Logger: logger,
	}
	if cfg.Backend == BackendGit {
		return gitbin.New(config)
	}
	return gogit.New(config)
}
