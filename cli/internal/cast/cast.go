// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cast plays recordings of terminal sessions, which are asciicast v2 files.
package cast

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxLine bounds a line of a recording.
const maxLine = 16 << 20

// Options set how a recording is played.
type Options struct {
	// Speed is the factor of acceleration. Zero or less means the original speed.
	Speed float64
	// IdleLimit is the longest pause, in the recording's time. Zero or less means no limit.
	IdleLimit time.Duration
	// Raw leaves out all pauses.
	Raw bool
}

// Play writes the output of a recorded session. A recording that breaks off within a line is played
// up to that line.
func Play(ctx context.Context, out io.Writer, recording io.Reader, opts Options) error {
	lines := bufio.NewScanner(recording)
	lines.Buffer(nil, maxLine)
	if err := readHeader(lines); err != nil {
		return err
	}
	last := 0.0
	for n := 2; lines.Scan(); n++ {
		at, kind, data, err := readEvent(lines.Bytes())
		if err != nil {
			if !lines.Scan() {
				return nil // it was not finished
			}
			return fmt.Errorf("line %d of the recording: %w", n, err)
		}
		if kind != "o" {
			continue
		}
		if err := opts.pause(ctx, at-last); err != nil {
			return err
		}
		last = at
		if _, err := io.WriteString(out, data); err != nil {
			return fmt.Errorf("play: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read recording: %w", err)
	}
	return nil
}

func readHeader(lines *bufio.Scanner) error {
	var header struct{ Version int }
	if !lines.Scan() {
		return errors.Join(errors.New("the recording is empty"), lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &header); err != nil || header.Version != 2 {
		return errors.New("the file is not a recording: its first line is not the header of an asciicast of version 2")
	}
	return nil
}

func readEvent(line []byte) (at float64, kind, data string, err error) {
	var fields []json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return 0, "", "", fmt.Errorf("want an event: %w", err)
	}
	if len(fields) != 3 {
		return 0, "", "", fmt.Errorf("got %d fields, want time, kind and data", len(fields))
	}
	err = errors.Join(json.Unmarshal(fields[0], &at), json.Unmarshal(fields[1], &kind), json.Unmarshal(fields[2], &data))
	return at, kind, data, err
}

// pause blocks for so many seconds of the recording's time.
func (o Options) pause(ctx context.Context, seconds float64) error {
	if o.Raw || seconds <= 0 {
		return ctx.Err()
	}
	if o.IdleLimit > 0 {
		seconds = min(seconds, o.IdleLimit.Seconds())
	}
	if o.Speed > 0 {
		seconds /= o.Speed
	}
	timer := time.NewTimer(time.Duration(min(seconds, 1e9) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("play: %w", ctx.Err())
	}
}
