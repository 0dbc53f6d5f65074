// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"context"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
)

// The errors of a download that no further attempt can change.
var (
	// ErrChecksum means that a server sent another file than the pinned one. Nothing of it is kept.
	ErrChecksum = errors.New("the file is not the pinned one")
	// ErrTooLarge means that a server sends more than the bound of the file. Nothing of it is kept.
	ErrTooLarge = errors.New("the file is too large")
	// ErrRedirect means that a server sent the client to an address without TLS that is not the
	// mirror.
	ErrRedirect = errors.New("refused a redirect")
)

const (
	// attemptsWithoutProgress ends a download: so many attempts in a row got not one more byte.
	attemptsWithoutProgress = 3
	// stallTimeout ends an attempt in which no byte arrives for so long.
	stallTimeout = 30 * time.Second
	// maxRedirects is more than the download sites need: each sends clients to one storage host.
	maxRedirects = 5
)

// downloader fetches pinned files.
type downloader struct {
	client   *http.Client
	mirror   *url.URL // nil: upstream's own addresses
	progress func(line string)
	pause    func(ctx context.Context, attempt int) error // between attempts
}

func newDownloader(p Params) (*downloader, error) {
	d := &downloader{progress: p.Progress, pause: p.Pause}
	if d.progress == nil {
		d.progress = func(string) {}
	}
	if d.pause == nil {
		d.pause = pause
	}
	if p.Mirror != "" {
		mirror, err := url.Parse(p.Mirror)
		if err != nil || mirror.Host == "" || mirror.Scheme != "https" && mirror.Scheme != "http" {
			return nil, fmt.Errorf("%q is not an http or https URL", p.Mirror)
		}
		d.mirror = mirror
	}
	d.client = &http.Client{Transport: p.Transport, CheckRedirect: d.checkRedirect}
	return d, nil
}

// pause waits before the next attempt.
func pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(backoff.Policy{Initial: time.Second}.Delay(attempt))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkRedirect lets a server send the client to TLS anywhere, and without TLS to the mirror alone.
// The checksum protects the content anyway; this keeps requests from hosts that the caller did not
// name.
func (d *downloader) checkRedirect(to *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d", ErrRedirect, maxRedirects)
	}
	if to.URL.Scheme == "https" || d.mirror != nil && to.URL.Scheme == d.mirror.Scheme && to.URL.Host == d.mirror.Host {
		return nil
	}
	return fmt.Errorf("%w to %s, which is neither https nor the mirror", ErrRedirect, to.URL.Redacted())
}

// address returns where to fetch a file: at a mirror, the path begins with upstream's host.
func (d *downloader) address(upstream string) (string, error) {
	if d.mirror == nil {
		return upstream, nil
	}
	parsed, err := url.Parse(upstream)
	if err != nil {
		return "", err
	}
	return d.mirror.JoinPath(parsed.Host, parsed.Path).String(), nil
}

// fetch makes the file at part hold the archive, with the pinned checksum. It continues what an
// earlier call has left at part. After an error of this file's the part is removed, and after
// others it is kept for the next call.
func (d *downloader) fetch(ctx context.Context, a Archive, part string) error {
	address, err := d.address(a.URL)
	if err != nil {
		return err
	}
	resumed := sizeOf(part) > 0
	err = d.complete(ctx, a, address, part)
	if err == nil {
		err = verify(part, a.SHA512)
	}
	if resumed && (errors.Is(err, ErrChecksum) || errors.Is(err, ErrTooLarge)) {
		// The rest of an earlier call may belong to another file, so it deserves one attempt from the
		// start.
		if err := os.Remove(part); err != nil {
			return err
		}
		return d.fetch(ctx, a, part)
	}
	if errors.Is(err, ErrChecksum) || errors.Is(err, ErrTooLarge) {
		return errors.Join(err, os.Remove(part))
	}
	return err
}

// complete repeats attempts until the server has sent all, or no attempt makes progress.
func (d *downloader) complete(ctx context.Context, a Archive, address, part string) error {
	idle := 0
	for attempt := 0; ; attempt++ {
		before := sizeOf(part)
		err := d.attempt(ctx, a, address, part)
		switch {
		case err == nil || ctx.Err() != nil || isFinal(err):
			return err
		case sizeOf(part) > before:
			idle = 0
		default:
			idle++
		}
		if idle == attemptsWithoutProgress {
			return err
		}
		d.progress(fmt.Sprintf("downloading %s: %v; trying again", path.Base(a.URL), err))
		if err := d.pause(ctx, idle); err != nil {
			return err
		}
	}
}

// isFinal reports whether another attempt would get the same.
func isFinal(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.code/100 == 4 && status.code != http.StatusTooManyRequests && status.code != http.StatusRequestTimeout
	}
	return errors.Is(err, ErrTooLarge) || errors.Is(err, ErrRedirect)
}

// statusError is an answer that has no content.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string { return "the server answers " + e.status }

// attempt makes one request and appends what it gets to part.
func (d *downloader) attempt(ctx context.Context, a Archive, address, part string) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("nothing arrived for %s", stallTimeout)) })
	defer stall.Stop()
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause // the end of the attempt's own context reads as a cancelled request
		}
	}()

	have := sizeOf(part)
	response, err := d.request(ctx, address, have)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	offset, err := offsetOf(response, have)
	if err != nil {
		return errors.Join(err, discard(err, part))
	}
	if response.ContentLength > a.MaxSize-offset {
		return fmt.Errorf("%w: the server announces %d bytes, want at most %d", ErrTooLarge, offset+response.ContentLength, a.MaxSize)
	}
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(offset); err != nil {
		return err
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	meter := &meter{name: path.Base(a.URL), done: offset, report: d.progress, alive: func() { stall.Reset(stallTimeout) }}
	if response.ContentLength >= 0 {
		meter.total = offset + response.ContentLength
	}
	meter.next = meter.done + meter.step()
	copied, err := io.Copy(file, io.TeeReader(io.LimitReader(response.Body, a.MaxSize-offset+1), meter))
	if offset+copied > a.MaxSize {
		return fmt.Errorf("%w: the server sends more than %d bytes", ErrTooLarge, a.MaxSize)
	}
	return err
}

func (d *downloader) request(ctx context.Context, address string, have int64) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	// A server that compresses on its own would send other bytes than the pinned ones.
	request.Header.Set("Accept-Encoding", "identity")
	if have > 0 {
		request.Header.Set("Range", "bytes="+strconv.FormatInt(have, 10)+"-")
	}
	return d.client.Do(request)
}

// errRange means that a server cannot continue a partial download.
var errRange = errors.New("the server does not continue the download")

// offsetOf returns where in the file the body of a response begins: after the bytes that are there,
// or at the start if the server ignores ranges.
func offsetOf(r *http.Response, have int64) (int64, error) {
	switch r.StatusCode {
	case http.StatusOK:
		return 0, nil
	case http.StatusPartialContent:
		if have > 0 && strings.HasPrefix(r.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(have, 10)+"-") {
			return have, nil
		}
		return 0, fmt.Errorf("%w: it sends %q", errRange, r.Header.Get("Content-Range"))
	case http.StatusRequestedRangeNotSatisfiable:
		// The usual cause is a part that is complete; the checksum decides.
		if total, ok := strings.CutPrefix(r.Header.Get("Content-Range"), "bytes */"); ok && total == strconv.FormatInt(have, 10) {
			r.Body = http.NoBody
			r.ContentLength = 0
			return have, nil
		}
		return 0, fmt.Errorf("%w: it answers %s", errRange, r.Status)
	default:
		return 0, &statusError{code: r.StatusCode, status: r.Status}
	}
}

// discard removes a part that the server does not continue, so that the next attempt starts from
// the beginning.
func discard(err error, part string) error {
	if !errors.Is(err, errRange) || sizeOf(part) == 0 {
		return nil
	}
	return os.Remove(part)
}

// meter reports progress, about ten times in a file.
type meter struct {
	name              string
	done, total, next int64 // total is 0 if the server does not announce it
	report            func(string)
	alive             func()
}

// step returns the number of bytes between two reports.
func (m *meter) step() int64 {
	const least = 4 << 20
	return max(least, cmp.Or(m.total, 320<<20)/10)
}

// Write implements io.Writer.
func (m *meter) Write(p []byte) (int, error) {
	m.alive()
	m.done += int64(len(p))
	if m.done < m.next {
		return len(p), nil
	}
	m.next = m.done + m.step()
	const mega = 1 << 20
	if m.total > 0 {
		m.report(fmt.Sprintf("downloading %s: %d of %d MiB", m.name, m.done/mega, m.total/mega))
	} else {
		m.report(fmt.Sprintf("downloading %s: %d MiB", m.name, m.done/mega))
	}
	return len(p), nil
}

// verify returns ErrChecksum unless the file has the SHA-512, in hexadecimal.
func verify(name, want string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha512.New()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
		return fmt.Errorf("%w: got SHA-512 %s…, want %s…", ErrChecksum, got[:16], want[:min(16, len(want))])
	}
	return nil
}

// sizeOf returns the size of a file, and 0 if it does not exist.
func sizeOf(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}
