// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/filter"
	"github.com/leatdev/leat/internal/testkit/await"
)

var schema = filter.Schema{
	{Name: "name", Type: filter.Text},
	{Name: "phase", Type: filter.Word, Values: []string{"FAILED", "HEALTHY"}},
	{Name: "reason", Type: filter.Word},
	{Name: "commit", Type: filter.Hash},
	{Name: "image", Type: filter.Text},
	{Name: "age", Type: filter.Age},
	{Name: "label.", Type: filter.Text},
}

// now is the time of the tests.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// object is a subject.
type object struct {
	fields map[string][]string
	labels map[string]string
	born   time.Time
}

func (o object) Any(field, key string, match func(string) bool) bool {
	if field == "label." {
		value, ok := o.labels[key]
		return ok && match(value)
	}
	if field == filter.FieldText {
		for _, values := range o.fields {
			for _, v := range values {
				if match(v) {
					return true
				}
			}
		}
		return false
	}
	for _, v := range o.fields[field] {
		if match(v) {
			return true
		}
	}
	return false
}

func (o object) At(string) time.Time { return o.born }

var shop = object{
	fields: map[string][]string{
		"name": {"shop-web"}, "phase": {"FAILED"}, "reason": {"APPLY_REJECTED"}, "commit": {"abcdef0123456789"}, "image": {"nginx:1.25", "docker.io/Redis:7"},
	},
	labels: map[string]string{"app": "web", "tier": "", "app.kubernetes.io/name": "shop", "odd": "a*b"},
	born:   now.Add(-25 * time.Hour),
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                               true,
		"   ":                            true,
		"name=shop-web":                  true,
		"name=Shop-web":                  false,
		"name=shop":                      false,
		"name=shop*":                     true,
		"name=*web":                      true,
		"name=s?op-*b":                   true,
		"name=*x*":                       false,
		`name="shop*"`:                   false,
		"name=other,shop-web":            true,
		"name!=other":                    true,
		"name!=other,shop-web":           false,
		"name!=shop*":                    false,
		"name~HOP":                       true,
		"name!~HOP":                      false,
		"phase=failed":                   true,
		"phase=Healthy,Failed":           true,
		"phase!=FAILED":                  false,
		"phase=fail*":                    true,
		"reason=apply_rejected":          true,
		"reason=apply_*":                 true,
		"commit=abcd":                    true,
		"commit=abce":                    false,
		"commit=bcde":                    false,
		"image~nginx":                    true,
		"image=*:1.25":                   true,
		"image~redis":                    true,
		"image=*redis*":                  false,
		"image!~nginx":                   false,
		"age>1d":                         true,
		"age>1d1h":                       false,
		"age>24h59m":                     true,
		"age<26h":                        true,
		"age<1w":                         true,
		"age<90m":                        false,
		"label.app=web":                  true,
		"label.app!=web":                 false,
		"label.none!=web":                true,
		"label.none=*":                   false,
		"label.none!=*":                  true,
		"label.tier=*":                   true,
		`label.tier=""`:                  true,
		"label.app.kubernetes.io/name~S": true,
		`label.odd="a*b"`:                true,
		"shop":                           true,
		"NGINX":                          true,
		`"shop-web"`:                     true,
		"shop nothing":                   false,
		"shop phase=failed image~redis":  true,
		"shop phase=healthy":             false,
	} {
		f, err := filter.Parse(text, schema)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := f.Matches(shop, now); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
		again, err := filter.Parse(f.String(), schema)
		if err != nil || again.String() != f.String() || again.Matches(shop, now) != want {
			t.Errorf("%q: written as %q it is another filter: %v", text, f.String(), err)
		}
	}
}

func TestAgeNeedsATime(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"age>1s", "age<1s"} {
		if f, err := filter.Parse(text, schema); err != nil || f.Matches(object{}, now) || !f.TellsTime() {
			t.Errorf("%s selects what has no time, or does not tell time: %v", text, err)
		}
	}
}

func TestErrorsNamePositionAndRemedy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		at   int
		says string
	}{
		"name=a colour=red":                      {8, "the fields are name, phase, reason, commit, image, age, label.KEY"},
		"phase=Failed,Sick":                      {14, "write one of FAILED, HEALTHY"},
		"name>2h":                                {1, "compare it with ="},
		"age=2h":                                 {1, "age>2h"},
		"age>soon":                               {5, "7d"},
		"age>-2h":                                {5, "7d"},
		"age>99999999d":                          {5, "7d"},
		"name=":                                  {6, `"" is the empty one`},
		"name=a,":                                {8, "a value is missing"},
		"=x":                                     {1, "name is missing"},
		`name="x`:                                {6, "no end"},
		`name="x"y`:                              {9, "means nothing here"},
		`a"b`:                                    {2, "double quotes"},
		`""`:                                     {1, "in everything"},
		`name~""`:                                {6, "in everything"},
		"commit=abc":                             {8, "at least 4"},
		"label.=x":                               {1, "there is no field"},
		"äö colour=x":                            {4, "there is no field"},
		"a\x00b":                                 {2, "control"},
		"a\xffb":                                 {1, "UTF-8"},
		strings.Repeat("x", 257):                 {1, "at most 256"},
		strings.Repeat("x ", 33):                 {65, "at most 32 terms"},
		"name=" + strings.Repeat("x,", 64) + "x": {1, "at most 64 values"},
		strings.Repeat("x", 4097):                {1, "at most 4096"},
	} {
		_, err := filter.Parse(text, schema)
		e, ok := errors.AsType[*filter.Error](err)
		if !ok || e.Position != want.at || !strings.Contains(e.Message, want.says) {
			t.Errorf("%.40q: got %v, want one at %d that says %q", text, err, want.at, want.says)
		}
	}
}

func TestSelectorsMeanTheSame(t *testing.T) {
	t.Parallel()
	for selector, want := range map[string]bool{
		"app=web": true, "app==db": false, "app!=db": true, "none!=x": true, "app in (a,web)": true, "app notin (a,web)": false,
		"tier": true, "!tier": false, "!none,app": true, "app.kubernetes.io/name=shop": true, "": true, "tier=": true,
	} {
		text, err := filter.OfSelector("label.", selector)
		if err != nil {
			t.Fatal(err)
		}
		f, err := filter.Parse(text, schema)
		if err != nil || f.Matches(shop, now) != want {
			t.Errorf("%q became %q, %v: want %t", selector, text, err, want)
		}
	}
	for _, selector := range []string{"a=b=c", "(", "n>5", strings.Repeat("a", 5000)} {
		if text, err := filter.OfSelector("label.", selector); err == nil {
			t.Errorf("%.40q became %q, want an error", selector, text)
		}
	}
}

// TestSecFiltersCostLittle compares the worst filters with the longest texts.
func TestSecFiltersCostLittle(t *testing.T) {
	t.Parallel()
	long := object{fields: map[string][]string{"name": {strings.Repeat("a", 1<<20)}}}
	hard := strings.Repeat("a", 255) + "b"
	for _, text := range []string{
		"name~" + strings.Join([]string{hard, hard, hard}, ","), "name=*" + strings.Repeat("a*", 120) + "b", hard,
	} {
		f, err := filter.Parse(text, schema)
		if err != nil {
			t.Fatal(err)
		}
		compared := make(chan int, 1)
		go func() { // without a bound for the comparison, this takes hours
			matches := 0
			for range 1000 {
				if f.Matches(long, now) {
					matches++
				}
			}
			compared <- matches
		}()
		if matches := await.Value(t, fmt.Sprintf("1000 comparisons with %.20q", text), compared); matches > 0 {
			t.Fatalf("%.20q matches", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"name=a phase=failed", `"x y" label.a!=*`, "age>2h,", `name~"\""`, "a=b,c d<e"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := filter.Parse(text, schema)
		if err != nil {
			if e, ok := errors.AsType[*filter.Error](err); !ok || e.Position < 1 || e.Position > len(text)+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := filter.Parse(parsed.String(), schema)
		if err != nil || again.String() != parsed.String() || again.Matches(shop, now) != parsed.Matches(shop, now) {
			t.Fatalf("%q is written as %q, which is another filter: %v", text, parsed.String(), err)
		}
	})
}
