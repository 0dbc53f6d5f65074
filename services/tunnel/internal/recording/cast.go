// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unicode/utf8"
)

// maxWaiting is how many events may wait for the disk.
const maxWaiting = 256

// Why a recording breaks off.
var (
	errTooLarge = errors.New("the recording has reached its largest size")
	errTooSlow  = errors.New("the disk does not keep up with the session")
)

// cast writes an asciicast v2 file, in a goroutine of its own. Its methods do not wait for the
// disk, unless told to. They are safe for concurrent use.
type cast struct {
	began time.Time
	waits bool
	lines chan []byte
	done  chan struct{}

	mu   sync.Mutex
	room int64
	rest map[string][]byte // of each kind of event the bytes of a character that is not whole yet

	failure sync.Mutex // apart from mu, which is held while the disk is waited for
	failed  error
}

// header is the first line of the file.
type header struct {
	Version   int    `json:"version"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Timestamp int64  `json:"timestamp"`
	Command   string `json:"command,omitempty"`
	Title     string `json:"title"`
	Leat      Info   `json:"leat"`
}

func newCast(path string, info Info, room int64, waits bool) (*cast, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make recording: %w", err)
	}
	began := time.Now()
	first, err := json.Marshal(header{
		Version: 2, Width: 80, Height: 24, Timestamp: began.Unix(), Command: info.command(), Title: info.title(), Leat: info,
	})
	if err == nil {
		_, err = file.Write(append(first, '\n'))
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("begin recording: %w", err)
	}
	c := &cast{
		began: began, waits: waits, lines: make(chan []byte, maxWaiting), done: make(chan struct{}),
		room: room - int64(len(first)), rest: map[string][]byte{},
	}
	go func() {
		defer close(c.done)
		c.write(file)
	}()
	return c, nil
}

// write writes what comes, and as much as has gathered at once.
func (c *cast) write(file *os.File) {
	out := bufio.NewWriterSize(file, 32<<10)
	for line := range c.lines {
		_, err := out.Write(line)
		if len(c.lines) == 0 {
			err = errors.Join(err, out.Flush())
		}
		if err != nil {
			_ = c.fail(fmt.Errorf("write recording: %w", err))
		}
	}
	if err := errors.Join(out.Flush(), file.Close()); err != nil {
		_ = c.fail(fmt.Errorf("end recording: %w", err))
	}
}

// fail ends the recording, and returns why it ended first.
func (c *cast) fail(err error) error {
	c.failure.Lock()
	defer c.failure.Unlock()
	if c.failed == nil {
		c.failed = err
	}
	return c.failed
}

// broken returns why the recording has ended. Nil: it continues.
func (c *cast) broken() error { return c.fail(nil) }

// event adds an event: "o" is output, "i" input, "r" a new size. The error is why the recording has
// broken off, now or before.
func (c *cast) event(kind string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.broken(); err != nil {
		return err
	}
	data = c.whole(kind, data)
	if len(data) == 0 {
		return nil
	}
	line, err := json.Marshal([]any{time.Since(c.began).Seconds(), kind, string(data)})
	if err != nil {
		return c.fail(fmt.Errorf("encode event: %w", err))
	}
	line = append(line, '\n')
	if c.room -= int64(len(line)); c.room < 0 {
		return c.fail(errTooLarge)
	}
	if c.waits {
		c.lines <- line
		return nil
	}
	select {
	case c.lines <- line:
		return nil
	default:
		return c.fail(errTooSlow)
	}
}

// whole keeps the beginning of a character back until its rest comes.
func (c *cast) whole(kind string, data []byte) []byte {
	data = append(c.rest[kind], data...)
	cut := len(data)
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				cut = i
			}
			break
		}
	}
	c.rest[kind] = append([]byte(nil), data[cut:]...)
	return data[:cut]
}

// close writes what waits, and returns why the recording is not whole.
func (c *cast) close() error {
	close(c.lines)
	<-c.done
	return c.broken()
}
