// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	ours       = "leat"
	peerPrefix = "peer="
	timeUnit   = "ns/op"
)

// result holds all measurements under one name.
type result struct {
	benchmark string               // without "Benchmark"
	kind      string               // the rest of the name, without a last element that is "leat" or a peer
	side      string               // that last element; empty if there is none
	units     []string             // in their printed order
	values    map[string][]float64 // by unit, one for each run
}

// lineForm ignores the number by which go test distinguishes repeated runs of one benchmark.
var lineForm = regexp.MustCompile(`^Benchmark(\S+?)(?:#\d+)?(?:-\d+)?\s+\d+\s+(.+)$`)

// read collects results in their order, and fails if a benchmark failed.
func read(in io.Reader) ([]*result, error) {
	var results []*result
	byName := map[string]*result{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "FAIL") || strings.HasPrefix(lines.Text(), "--- FAIL") {
			return nil, fmt.Errorf("a benchmark did not succeed: %s", lines.Text())
		}
		m := lineForm.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		r, ok := byName[m[1]]
		if !ok {
			r = newResult(m[1])
			byName[m[1]] = r
			results = append(results, r)
		}
		if err := r.add(strings.Fields(m[2])); err != nil {
			return nil, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if len(results) == 0 {
		return nil, errors.New("the input has no benchmark result")
	}
	return results, nil
}

func newResult(name string) *result {
	benchmark, rest, _ := strings.Cut(name, "/")
	r := &result{benchmark: benchmark, kind: rest, values: map[string][]float64{}}
	last := rest[strings.LastIndexByte(rest, '/')+1:]
	if last == ours || strings.HasPrefix(last, peerPrefix) {
		r.side, r.kind = last, strings.TrimSuffix(strings.TrimSuffix(rest, last), "/")
	}
	return r
}

// add parses pairs of a value and its unit.
func (r *result) add(fields []string) error {
	for pair := range slices.Chunk(fields, 2) {
		if len(pair) < 2 {
			return fmt.Errorf("value %q has no unit", pair[0])
		}
		value, err := strconv.ParseFloat(pair[0], 64)
		if err != nil {
			return err
		}
		if _, ok := r.values[pair[1]]; !ok {
			r.units = append(r.units, pair[1])
		}
		r.values[pair[1]] = append(r.values[pair[1]], value)
	}
	return nil
}

func (r *result) median(unit string) float64 {
	sorted := slices.Sorted(slices.Values(r.values[unit]))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// write prints a table for each benchmark.
func write(out io.Writer, results []*result) error {
	b := bufio.NewWriter(out)
	for i, r := range results {
		if i == 0 || results[i-1].benchmark != r.benchmark {
			fmt.Fprintf(b, "\n## %s\n\n| | | per operation | ratio to the peer | |\n|---|---|---|---|---|\n", r.benchmark)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", r.kind, r.side, duration(r.median(timeUnit)), r.ratio(results), r.others())
	}
	return b.Flush()
}

// ratio returns our time divided by the time of the peer of the same kind.
func (r *result) ratio(all []*result) string {
	if r.side != ours {
		return ""
	}
	for _, other := range all {
		if other.benchmark == r.benchmark && other.kind == r.kind && strings.HasPrefix(other.side, peerPrefix) {
			return strconv.FormatFloat(r.median(timeUnit)/other.median(timeUnit), 'f', 2, 64)
		}
	}
	return ""
}

func (r *result) others() string {
	var texts []string
	for _, unit := range r.units {
		if unit != timeUnit {
			rounded := math.Round(r.median(unit)*1000) / 1000 // the middle of two values may have more digits than both
			texts = append(texts, strconv.FormatFloat(rounded, 'f', -1, 64)+" "+unit)
		}
	}
	return strings.Join(texts, ", ")
}

func duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.1f ms", ns/1e6)
	default:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	}
}
