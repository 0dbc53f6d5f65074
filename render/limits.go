// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
)

// Limits bound the cost of rendering one service. A zero field means its default, so the zero
// Limits are the defaults of an agent that may use 512 MiB.
type Limits struct {
	// Names bounds the names of files, including those behind symbolic links. Zero: 40 000.
	Names int
	// Bytes bounds the contents of a bundle's files, which are all in memory. Zero: 64 MiB.
	Bytes int64
	// Text bounds the manifests of one call of Objects, in bytes of JSON with YAML's aliases
	// expanded. Zero: 16 MiB.
	Text int64
	// Values bounds the maps, lists and scalars in those manifests. Zero: one for each 8 bytes of
	// Text.
	Values int
	// Objects bounds the number of objects. Zero: 20 000.
	Objects int
	// ObjectBytes bounds one object in bytes of JSON. Zero: 3 MiB, the limit of an API server.
	ObjectBytes int
	// Depth bounds how deeply maps and lists of an object are nested. Zero: 100.
	Depth int
}

const (
	defaultNames       = 40_000
	defaultBytes       = 64 << 20
	defaultText        = 16 << 20
	bytesPerValue      = 8
	defaultObjects     = 20_000
	defaultObjectBytes = 3 << 20
	defaultDepth       = 100

	leastText      = 8 << 20
	mostText       = 64 << 20
	memoryOverText = 32
)

// LimitsWithin returns the limits of an agent that may use memory bytes of memory. Zero or less
// means that the amount is unknown.
func LimitsWithin(memory int64) Limits {
	limits := Limits{Text: mostText}
	if memory > 0 {
		limits.Text = min(max(memory/memoryOverText, leastText), mostText)
	}
	return limits.WithDefaults()
}

// WithDefaults returns the limits with defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	l.Names = cmp.Or(l.Names, defaultNames)
	l.Bytes = cmp.Or(l.Bytes, defaultBytes)
	l.Text = cmp.Or(l.Text, defaultText)
	l.Values = cmp.Or(l.Values, int(l.Text/bytesPerValue))
	l.Objects = cmp.Or(l.Objects, defaultObjects)
	l.ObjectBytes = cmp.Or(l.ObjectBytes, defaultObjectBytes)
	l.Depth = cmp.Or(l.Depth, defaultDepth)
	return l
}

// Limit names the limit that a LimitError reports.
type Limit string

// The limits.
const (
	LimitNames   Limit = "names"
	LimitBytes   Limit = "bytes"
	LimitText    Limit = "text"
	LimitValues  Limit = "values"
	LimitObjects Limit = "objects"
	LimitObject  Limit = "object"
	LimitDepth   Limit = "depth"
	LimitMemory  Limit = "memory"
	LimitTime    Limit = "time"
)

// LimitError reports that rendering exceeded a limit. Objects that were applied before stay
// applied.
type LimitError struct {
	// Path is the file or folder inside the bundle. Empty where an *Error around this one names it.
	Path string
	// Limit is the limit that was exceeded.
	Limit Limit
	// Message describes what exceeded the limit, and what to do.
	Message string
	// RetryAt is when the same content is rendered again. Zero: the content exceeds the limit on
	// every machine, at any time.
	RetryAt time.Time
}

// Reason implements reason.ReasonedError.
func (e *LimitError) Reason() reason.Reason { return reason.RenderLimit }

// Error implements error.
func (e *LimitError) Error() string {
	text := e.Message
	if e.Path != "" {
		text = e.Path + ": " + text
	}
	if !e.RetryAt.IsZero() {
		text += "; the same content is tried again after " + e.RetryAt.UTC().Format("15:04:05") + " UTC"
	}
	return text
}

// DependsOnMachine reports whether the same content could be rendered at another time or on another
// machine.
func (e *LimitError) DependsOnMachine() bool {
	return e.Limit == LimitMemory || e.Limit == LimitTime
}

func exceeded(limit Limit, format string, args ...any) *LimitError {
	return &LimitError{Limit: limit, Message: fmt.Sprintf(format, args...)}
}

// budget is how much of its limits one call of Objects has used. Only one goroutine may use it.
type budget struct {
	limits  Limits
	text    int64
	values  int
	objects int
}

func newBudget(limits Limits) *budget {
	return &budget{limits: limits.WithDefaults()}
}

// addText counts bytes of manifests.
func (b *budget) addText(bytes int64) error {
	if b.text += bytes; b.text > b.limits.Text {
		return exceeded(LimitText, "the manifests of the service have more than %s; split the service", sizeText(b.limits.Text))
	}
	return nil
}

// addObject counts an object and its values, and checks its size. encoded is an upper bound of its
// bytes as JSON.
func (b *budget) addObject(fields map[string]any, encoded int) error {
	if b.objects++; b.objects > b.limits.Objects {
		return exceeded(LimitObjects, "the service has more than %d objects; split the service", b.limits.Objects)
	}
	if encoded > b.limits.ObjectBytes {
		return exceeded(LimitObject, "the object has more than %s, which no API server accepts", sizeText(int64(b.limits.ObjectBytes)))
	}
	return b.addValue(fields, 0)
}

// addValue counts a value and the values in it.
func (b *budget) addValue(value any, depth int) error {
	if depth > b.limits.Depth {
		return exceeded(LimitDepth, "maps and lists are nested more than %d deep", b.limits.Depth)
	}
	if b.values++; b.values > b.limits.Values {
		return exceeded(LimitValues, "the manifests of the service have more than %d values; split the service", b.limits.Values)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, item := range v {
			if err := b.addValue(item, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := b.addValue(item, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeText formats a number of bytes for people.
func sizeText(bytes int64) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	default:
		return fmt.Sprintf("%d bytes", bytes)
	}
}
