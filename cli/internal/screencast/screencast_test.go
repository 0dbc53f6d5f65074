// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package screencast_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/cli/internal/screencast"
)

func sample() screencast.Recording {
	return screencast.Recording{Title: "a <demo>", Lines: []screencast.Line{
		{At: 0, Text: "leat up", IsCommand: true},
		{At: 10 * time.Second, Text: "hub ready & waiting"},
		{At: 11 * time.Second, Text: strings.Repeat("ü", screencast.Columns+5)},
		{At: 40 * time.Second, Text: "leat get services", IsCommand: true},
	}}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	recording := sample()
	var got []time.Duration
	for _, line := range recording.Paced(2*time.Second, 3*time.Second).Lines {
		got = append(got, line.At)
	}
	want := []time.Duration{0, 2 * time.Second, 3 * time.Second, 6 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sample(), recording); diff != "" {
		t.Errorf("Paced changed its receiver (-before +after):\n%s", diff)
	}
}

func TestCastIsVersionTwo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := sample().WriteCast(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var header struct{ Version, Width, Height int }
	if err := json.Unmarshal([]byte(lines[0]), &header); err != nil || header.Version != 2 || header.Width != screencast.Columns {
		t.Errorf("got header %s (%v), want version 2 and %d columns", lines[0], err, screencast.Columns)
	}
	var texts []string
	for _, line := range lines[1:] {
		var event [3]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		text, _ := event[2].(string)
		texts = append(texts, text)
	}
	want := []string{
		"$ leat up\r\n", "hub ready & waiting\r\n", strings.Repeat("ü", screencast.Columns-1) + "…\r\n", "$ leat get services\r\n",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}

func TestPictureShowsEachLineAtItsTime(t *testing.T) {
	t.Parallel()
	recording := screencast.Recording{Title: "long & true"}
	for i := range screencast.Rows + 3 {
		recording.Lines = append(recording.Lines, screencast.Line{At: time.Duration(i) * time.Second, Text: "<line> " + strconv.Itoa(i)})
	}
	var out bytes.Buffer
	if err := recording.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	var texts []string
	isText := false
	for decoder := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			isText = token.Name.Local == "text"
		case xml.CharData:
			if isText {
				texts = append(texts, string(token))
			}
		case xml.EndElement:
			isText = false
		}
	}
	if len(texts) != len(recording.Lines) || texts[4] != "<line> 4" {
		t.Errorf("got lines %q, want %d", texts, len(recording.Lines))
	}
	var appears []float64
	for _, match := range regexp.MustCompile(`hidden\}([0-9.]+)%\{visibility:visible`).FindAllStringSubmatch(out.String(), -1) {
		at, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		appears = append(appears, at)
	}
	if len(appears) != len(recording.Lines) || !slices.IsSorted(appears) {
		t.Errorf("lines appear at %v, want %d times in order", appears, len(recording.Lines))
	}
	if moves := strings.Count(out.String(), "translateY(-"); moves != 3 {
		t.Errorf("got %d moves up, want one for each of the 3 lines below the last row", moves)
	}
	if strings.Contains(out.String(), "<script") || strings.Count(out.String(), "http") != 1 {
		t.Error("the picture has a script, or refers to something")
	}
}
