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
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/agent/internal/manifest"
)

// download resumes an earlier attempt, possibly of an earlier process, and passes the complete file
// to the store, which verifies it. If a delta cannot be used, it downloads the bundle itself.
func (b *Bundles) download(ctx context.Context, d, base digest.Digest) (err error) {
	part, err := openPartial(filepath.Join(b.params.Dir, d.Hex()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, part.close()) }()
	if part.size > 0 {
		base = part.is.Base // bytes of another delta, or of the bundle, cannot be continued
	}
	if !base.IsZero() && !b.holds(ctx, base) {
		base = digest.Digest{}
		if err := part.clear(); err != nil {
			return err
		}
	}
	if base == d {
		base = digest.Digest{} // it was evicted meanwhile
	}
	if err := b.transfer(ctx, d, base, part); err != nil {
		return err
	}
	if part.is.Base.IsZero() {
		return b.keep(ctx, d, part)
	}
	err = b.rebuild(ctx, d, part)
	if err == nil || ctx.Err() != nil || errors.Is(err, cas.ErrFull) {
		return err
	}
	b.logger.DebugContext(ctx, "delta cannot be used, downloading the whole bundle",
		slog.String(telemetry.KeyDigest, d.String()), slog.Any("error", err))
	b.metrics.count(ctx, resultFallback)
	if err := part.clear(); err != nil {
		return err
	}
	if err := b.transfer(ctx, d, digest.Digest{}, part); err != nil {
		return err
	}
	return b.keep(ctx, d, part)
}

func (b *Bundles) holds(ctx context.Context, d digest.Digest) bool {
	_, err := b.params.Store.Stat(ctx, d)
	return err == nil
}

// keep stores a bundle that was downloaded whole.
func (b *Bundles) keep(ctx context.Context, d digest.Digest, part *partial) error {
	err := b.put(ctx, d, func() (io.ReadCloser, error) {
		content, err := part.content()
		return io.NopCloser(content), err
	})
	if err != nil && !isDamaged(err) {
		return fmt.Errorf("store bundle: %w", err)
	}
	if err != nil {
		b.logger.WarnContext(ctx, "store rejects the downloaded bundle", slog.String(telemetry.KeyDigest, d.String()), slog.Any("error", err))
	} else {
		b.metrics.count(ctx, resultWhole)
	}
	// Also if the bytes are damaged: another attempt would only append to them.
	return errors.Join(err, part.remove())
}

// put stores the content that open returns. If the store is full, it tries again after the last
// good bundles have been unpinned.
func (b *Bundles) put(ctx context.Context, d digest.Digest, open func() (io.ReadCloser, error)) error {
	once := func() error {
		content, err := open()
		if err != nil {
			return err
		}
		_, err = b.params.Store.Put(ctx, d, content)
		return errors.Join(err, content.Close())
	}
	err := once()
	if errors.Is(err, cas.ErrFull) && b.params.Yield != nil {
		b.params.Yield()
		err = once()
	}
	if err == nil {
		b.remember(d)
	}
	return err
}

func isDamaged(err error) bool {
	return errors.Is(err, digest.ErrMismatch) || errors.Is(err, cas.ErrCorrupt) || errors.Is(err, cas.ErrTooLarge)
}

// transfer downloads the missing bytes. With a base the answer may be a delta from it.
func (b *Bundles) transfer(ctx context.Context, d, base digest.Digest, part *partial) error {
	response, err := b.request(ctx, d, base, part)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusPartialContent:
		if !part.continues(response.Header) {
			return errors.Join(errors.New("download bundle: the answer does not continue the earlier bytes"), part.clear())
		}
		b.metrics.count(ctx, resultResumed)
	case http.StatusRequestedRangeNotSatisfiable:
		if response.Header.Get("Content-Range") == "bytes */"+strconv.FormatInt(part.size, 10) {
			return nil // the file is complete already
		}
		return errors.Join(errors.New("download bundle: the hub has fewer bytes than were downloaded before"), part.clear())
	case http.StatusOK:
		is, err := represented(response.Header, base)
		if err != nil {
			return backoff.Permanent(err)
		}
		if err := part.begin(is); err != nil {
			return err
		}
	default:
		return refusal(response)
	}
	// Compressed bytes are not longer than their content, except for a little framing.
	body := &brokenOff{from: response.Body}
	n, err := io.Copy(part, io.LimitReader(body, bundle.DefaultLimits().Bytes+1<<20-part.size))
	b.metrics.received.Add(ctx, n)
	if err != nil {
		return fmt.Errorf("download bundle: after %d bytes: %w", part.size, err)
	}
	return nil
}

// unanswered is an error of the hub's, or of the way to it.
type unanswered struct{ error }

// Is implements the interface of errors.Is.
func (u unanswered) Is(target error) bool { return target == manifest.ErrUnanswered }

// Unwrap implements the interface of errors.As.
func (u unanswered) Unwrap() error { return u.error }

// brokenOff reads a body, and makes its errors the hub's, as opposed to those of the file that is written.
type brokenOff struct{ from io.Reader }

// Read implements io.Reader.
func (b *brokenOff) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unanswered{err}
	}
	return n, err
}

func (b *Bundles) request(ctx context.Context, d, base digest.Digest, part *partial) (*http.Response, error) {
	address := strings.TrimRight(b.params.BaseURL, "/") + "/v1/bundles/" + d.String()
	accept := bundle.MediaType
	if !base.IsZero() {
		address += "?from=" + url.QueryEscape(base.String())
		accept = bundle.DeltaMediaType + ", " + bundle.MediaType
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	b.params.Telemetry.OutsidePropagator().Inject(ctx, propagation.HeaderCarrier(request.Header))
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "zstd") // also prevents the transport's own gzip
	if part.size > 0 {
		request.Header.Set("Range", "bytes="+strconv.FormatInt(part.size, 10)+"-")
		request.Header.Set("If-Range", part.is.Tag)
	}
	response, err := b.params.HTTP.Do(request)
	if err != nil {
		return nil, unanswered{fmt.Errorf("download bundle: %w", err)}
	}
	return response, nil
}

// represented returns what an answer represents from its first byte on: a delta from the requested
// base, or the bundle. A bundle is zstd by its type or by its encoding, with the same bytes. The
// store detects anything else.
func represented(header http.Header, base digest.Digest) (representation, error) {
	is := representation{}
	if tag := header.Get("Etag"); !strings.HasPrefix(tag, "W/") {
		is.Tag = tag // a weak tag does not identify bytes
	}
	coding := header.Get("Content-Encoding")
	mediaType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	switch {
	case coding != "" && coding != "zstd":
		return is, fmt.Errorf("download bundle: got encoding %q, want zstd", coding)
	case strings.TrimSpace(mediaType) != bundle.DeltaMediaType:
		return is, nil
	case base.IsZero() || coding != "":
		return is, errors.New("download bundle: got a delta without requesting one")
	default:
		is.Base = base
		return is, nil
	}
}

// refusal returns the hub's error, with the delay that it requests.
func refusal(response *http.Response) error {
	err := rpcerr.FromHTTP(response)
	if err == nil {
		return fmt.Errorf("download bundle: got status %d, want 200 or 206", response.StatusCode)
	}
	err = fmt.Errorf("download bundle: %w", err)
	if delay, ok := rpcerr.RetryDelay(err); ok {
		return backoff.RetryAfter(unanswered{err}, delay)
	}
	if response.StatusCode < http.StatusInternalServerError && response.StatusCode != http.StatusTooManyRequests {
		return backoff.Permanent(err)
	}
	return unanswered{err}
}
