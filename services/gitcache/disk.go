// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/private"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/gitcache/internal/artifactstore"
	"github.com/leatdev/leat/services/gitcache/internal/attestation"
	"github.com/leatdev/leat/services/gitcache/internal/backend"
	"github.com/leatdev/leat/services/gitcache/internal/cloudlogin"
	"github.com/leatdev/leat/services/gitcache/internal/credfile"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/helmrepo"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/kinds"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/charts"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// disk is everything below the data folder but the registry's copy. It is opened as a whole, before
// anything that could change it runs.
type disk struct {
	git       *backend.Backend
	artifacts *artifactstore.Store
	// mirrors are the mirrors of all types.
	mirrors *kinds.Backend
	// credentials are those by URL prefix; nil where no file is set.
	credentials *credfile.File
	objects     *lfs.Store
	bundles     *casdisk.Store
	index       *snapshot.Index
	temporary   string
}

// openDisk opens the folders. root returns the URL of the repository with a UID, and is asked when
// one is fetched.
func openDisk(cfg Config, root func(uid string) (mirror.Root, bool), tel *telemetry.Telemetry) (*disk, error) {
	temporary := filepath.Join(cfg.DataDir, "tmp")
	if err := private.Dir(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	d := &disk{temporary: temporary}
	var err error
	// First, because it keeps two processes from using one folder.
	d.bundles, err = casdisk.Open(casdisk.Config{
		Dir: filepath.Join(cfg.DataDir, "bundles"), MaxBytes: int64(cfg.BundleCache), MaxContentBytes: int64(cfg.MaxBundleBytes),
		Logger: tel.Logger(),
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(temporary), os.MkdirAll(temporary, 0o700)); err != nil {
		return nil, errors.Join(fmt.Errorf("make temporary folder: %w", err), d.Close())
	}
	if d.index, err = snapshot.OpenIndex(filepath.Join(cfg.DataDir, "digests.log")); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.objects, err = lfs.OpenStore(filepath.Join(cfg.DataDir, "lfs")); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := errors.Join(
		d.openMirrors(cfg, root, tel), observeStore(tel.Meter(scope), d.bundles), serve.ObserveDisk(tel.Meter(scope), cfg.DataDir),
	); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *disk) newBuilder(
	cfg Config, blobs leaves.Blobs, objects snapshot.Objects, submodules snapshot.Submodules, charts charts.Finder, tel *telemetry.Telemetry,
) (*snapshot.Builder, error) {
	return snapshot.NewBuilder(snapshot.Params{
		Mirrors: d.mirrors, Blobs: blobs, Objects: objects, Submodules: submodules, Charts: charts, Store: d.bundles, Index: d.index, Limits: cfg.limits(), TempDir: d.temporary,
		Builds: cfg.Builds, Logger: tel.Logger(), Tracer: tel.Tracer(scope), Meter: tel.Meter(scope),
	})
}

// openMirrors opens mirrors and upstreams, with the credentials that are shared by prefix.
func (d *disk) openMirrors(cfg Config, root func(uid string) (mirror.Root, bool), tel *telemetry.Telemetry) (err error) {
	guard, err := cfg.upstreamGuard()
	if err != nil {
		return err
	}
	config := backend.Config{
		Dir: filepath.Join(cfg.DataDir, "mirrors"), Readers: cfg.Readers, Root: root,
		Guard:  guard,
		Hosts:  hostgate.New(hostgate.Config{Sessions: cfg.HostSessions, Requests: cfg.HostRequests, Burst: cfg.HostBurst}),
		Memory: memory.NewBudget(int64(cfg.Memory)), MirrorDisk: int64(cfg.MirrorDisk), Logger: tel.Logger(),
		OtherMirrors: func() int64 { return d.artifacts.Usage().Bytes },
	}
	if cfg.CredentialsFile != "" {
		d.credentials = credfile.New(cfg.CredentialsFile, tel.Logger())
		config.Credentials = d.credentials
	}
	d.artifacts, err = artifactstore.New(artifactstore.Params{
		Dir: filepath.Join(cfg.DataDir, "artifacts"), Readers: cfg.Readers, Limits: cfg.limits(), DiskBytes: int64(cfg.MirrorDisk),
		Others: func() int64 { return d.git.Usage().Bytes }, Logger: tel.Logger(),
	})
	if err != nil {
		return err
	}
	open := gogit.New
	if cfg.Backend == BackendGit {
		open = gitbin.New
	}
	if d.git, err = open(config); err != nil {
		return err
	}
	signatures, err := attestation.NewMetrics(tel.Meter(scope))
	if err != nil {
		return err
	}
	logins, err := cloudlogin.New(cfg.Identity, nil)
	if err != nil {
		return err
	}
	registries, err := ociregistry.New(ociregistry.Params{
		Carriers: d.git, Logins: logins, Mirrors: d.artifacts, Limits: cfg.limits(), Signatures: signatures,
	})
	if err != nil {
		return err
	}
	d.mirrors = kinds.New(kinds.Params{Git: d.git, Artifacts: d.artifacts, Upstreams: map[upstream.Type]kinds.Upstream{
		upstream.TypeHelm: helmrepo.New(helmrepo.Params{
			Carriers: d.git, Mirrors: d.artifacts, Limits: cfg.limits(), TempDir: d.temporary, Signatures: signatures,
			Logger: tel.Logger(),
		}),
		upstream.TypeOCI: registries,
	}})
	if d.credentials == nil {
		return nil
	}
	return d.credentials.Load(d.mirrors.Check)
}

// run looks after the bundles, and reads the file of credentials again when it changes, until ctx
// is done.
func (d *disk) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if d.credentials != nil {
		group.Go(func() error { return d.credentials.Run(ctx) })
	}
	group.Go(func() error {
		_ = d.bundles.Run(ctx, nil) // returns only why ctx ended
		return nil
	})
	return group.Wait()
}

// Close closes what was opened.
func (d *disk) Close() error {
	var err error
	if d.index != nil {
		err = d.index.Close()
	}
	return errors.Join(err, d.bundles.Close())
}

// observeStore shows how full the store for bundles is.
func observeStore(meter metric.Meter, store cas.Store) error {
	used, err := meter.Int64ObservableGauge("leat.cas.usage", metric.WithUnit("By"), metric.WithDescription("Bytes of stored bundles."))
	limit, err2 := meter.Int64ObservableGauge("leat.cas.limit", metric.WithUnit("By"), metric.WithDescription("Bound of leat.cas.usage."))
	_, err3 := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		usage, err := store.Usage(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(used, usage.Bytes)
		o.ObserveInt64(limit, usage.MaxBytes)
		return nil
	}, used, limit)
	if err := errors.Join(err, err2, err3); err != nil {
		return fmt.Errorf("make metrics: %w", err)
	}
	return nil
}
