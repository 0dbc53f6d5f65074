// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"golang.org/x/sync/singleflight"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

const (
	partialDir = "partial"
	// downloadTimeout bounds one download, all its attempts included.
	downloadTimeout = 5 * time.Minute
	// partialMaxAge is when what is left of a download is not worth going on with.
	partialMaxAge = 24 * time.Hour
)

// BundleParams are what OpenBundles needs.
type BundleParams struct {
	// Dir is where downloads are kept until they are complete.
	Dir string
	// BaseURL is the hub's.
	BaseURL string
	// HTTP sends requests with the agent's token.
	HTTP   *http.Client
	Store  cas.Store
	Logger *slog.Logger
	// Retry spaces attempts of one download. Zero: four attempts, 200 ms apart and growing.
	Retry backoff.Policy
}

// Bundles downloads content and keeps it, verified. It is safe for concurrent use.
type Bundles struct {
	params BundleParams
	flight singleflight.Group
}

var _ reconcile.Bundles = (*Bundles)(nil)

// OpenBundles makes the folder for downloads, and removes what is left of old ones.
func OpenBundles(p BundleParams) (*Bundles, error) {
	p.Dir = filepath.Join(p.Dir, partialDir)
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for downloads: %w", err)
	}
	if p.Retry == (backoff.Policy{}) {
		p.Retry = backoff.Policy{MaxAttempts: 4}
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("list downloads: %w", err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) > partialMaxAge {
			err = os.Remove(filepath.Join(p.Dir, entry.Name()))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove old download: %w", err)
		}
	}
	return &Bundles{params: p}, nil
}

// Open implements reconcile.Bundles.
func (b *Bundles) Open(ctx context.Context, d digest.Digest) (io.ReadCloser, error) {
	blob, err := b.params.Store.Open(ctx, d)
	if errors.Is(err, cas.ErrNotFound) {
		if err := b.fetch(ctx, d); err != nil {
			return nil, err
		}
		blob, err = b.params.Store.Open(ctx, d)
	}
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	content, err := bundle.Decompress(blob, bundle.DefaultLimits().Bytes)
	if err != nil {
		return nil, errors.Join(err, blob.Close())
	}
	return &openBundle{ReadCloser: content, blob: blob}, nil
}

// openBundle closes both layers.
type openBundle struct {
	io.ReadCloser

	blob io.Closer
}

func (o *openBundle) Close() error {
	return errors.Join(o.ReadCloser.Close(), o.blob.Close())
}

// fetch downloads a bundle into the store, once for all who ask at the same time. The download outlives a caller that
// gives up: what it brings is kept for the next.
func (b *Bundles) fetch(ctx context.Context, d digest.Digest) error {
	done := b.flight.DoChan(d.Hex(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downloadTimeout)
		defer cancel()
		return nil, backoff.Retry(ctx, b.params.Retry, func(ctx context.Context) error { return b.download(ctx, d) })
	})
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case result := <-done:
		return result.Err
	}
}

// download goes on where an earlier attempt broke off, and hands the whole to the store, which verifies it.
func (b *Bundles) download(ctx context.Context, d digest.Digest) (err error) {
	path := filepath.Join(b.params.Dir, d.Hex())
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open download: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := b.transfer(ctx, d, file); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind download: %w", err)
	}
	_, err = b.params.Store.Put(ctx, d, file)
	if err != nil && !damaged(err) {
		return fmt.Errorf("store bundle: %w", err)
	}
	if err != nil {
		b.params.Logger.WarnContext(ctx, "downloaded bundle is refused", slog.String("digest", d.String()), slog.Any("error", err))
	}
	// Also after damage: what is wrong with the bytes would only be added to.
	return errors.Join(err, os.Remove(path))
}

func damaged(err error) bool {
	return errors.Is(err, digest.ErrMismatch) || errors.Is(err, cas.ErrCorrupt) || errors.Is(err, cas.ErrTooLarge)
}

// transfer appends to the file what it lacks.
func (b *Bundles) transfer(ctx context.Context, d digest.Digest, file *os.File) error {
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find end of download: %w", err)
	}
	response, err := b.request(ctx, d, have)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusPartialContent:
		if start, ok := rangeStart(response.Header.Get("Content-Range")); !ok || start != have {
			return errors.Join(errors.New("download bundle: the answer begins elsewhere than asked"), file.Truncate(0))
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return nil // the file is complete, or too long, which the store finds out
	case http.StatusOK:
		if have, err = file.Seek(0, io.SeekStart); err == nil {
			err = file.Truncate(0)
		}
		if err != nil {
			return fmt.Errorf("start download anew: %w", err)
		}
	default:
		return refusal(response)
	}
	// Compressed bytes are not longer than their content but for a little framing.
	limit := bundle.DefaultLimits().Bytes + 1<<20 - have
	if n, err := io.Copy(file, io.LimitReader(response.Body, limit)); err != nil {
		return fmt.Errorf("download bundle: after %d bytes: %w", have+n, err)
	}
	return nil
}

func (b *Bundles) request(ctx context.Context, d digest.Digest, have int64) (*http.Response, error) {
	url := strings.TrimRight(b.params.BaseURL, "/") + "/v1/bundles/" + d.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	request.Header.Set("Accept", bundle.MediaType)
	request.Header.Set("Accept-Encoding", "zstd") // also keeps the transport from asking for gzip and undoing it
	if have > 0 {
		request.Header.Set("Range", "bytes="+strconv.FormatInt(have, 10)+"-")
	}
	response, err := b.params.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("download bundle: %w", err)
	}
	return response, nil
}

// refusal is the hub's error, with the delay it asks for.
func refusal(response *http.Response) error {
	err := rpcerr.FromHTTP(response)
	if err == nil {
		return fmt.Errorf("download bundle: got status %d, want 200 or 206", response.StatusCode)
	}
	err = fmt.Errorf("download bundle: %w", err)
	if delay, ok := rpcerr.RetryDelay(err); ok {
		return backoff.RetryAfter(err, delay)
	}
	if response.StatusCode < http.StatusInternalServerError && response.StatusCode != http.StatusTooManyRequests {
		return backoff.Permanent(err)
	}
	return err
}

// rangeStart reads the first number of "bytes 100-199/200".
func rangeStart(header string) (int64, bool) {
	text, _, found := strings.Cut(strings.TrimPrefix(header, "bytes "), "-")
	start, err := strconv.ParseInt(text, 10, 64)
	return start, found && err == nil
}
