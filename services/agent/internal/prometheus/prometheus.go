// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package prometheus asks a Prometheus in the cluster, or a server with its API. It trusts no answer:
// bytes, series, points and labels are bounded, redirects are refused, and nothing of an error but a
// short text is passed on.
package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/metrics"
)

const (
	maxBody   = 8 << 20
	maxSeries = 2000
	maxPoints = 501
	maxLabel  = 253
	maxWords  = 300
	// evaluation is how long Prometheus may calculate.
	evaluation = 20 * time.Second
)

// Client asks services of the cluster. It is safe for concurrent use.
type Client struct {
	http   *http.Client
	locate Locate
}

var _ metrics.Database = (*Client)(nil)

// Locate returns the address of a service of the cluster, without a path. Its error is final.
type Locate func(service string) (*url.URL, error)

// New returns a Client that uses the transport, and sends no credentials.
func New(transport http.RoundTripper, locate Locate) *Client {
	return &Client{locate: locate, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// QueryRange implements metrics.Database.
func (c *Client) QueryRange(ctx context.Context, service, expression string, window metrics.Window) ([]metrics.Series, error) {
	at, err := c.locate(service)
	if err != nil {
		return nil, err
	}
	form := url.Values{
		"query": {expression}, "start": {seconds(window.Start)}, "end": {seconds(window.End)},
		"step":    {strconv.FormatFloat(window.Step.Seconds(), 'f', -1, 64)},
		"timeout": {strconv.Itoa(int(evaluation.Seconds())) + "s"},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.JoinPath("/api/v1/query_range").String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("query Prometheus: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, unavailable(service, "does not answer: "+cause(ctx, err))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, unavailable(service, "ended its answer: "+cause(ctx, err))
	case len(body) > maxBody:
		return nil, unavailable(service, fmt.Sprintf("answered with more than %d MiB; choose a shorter time", maxBody>>20))
	case response.StatusCode != http.StatusOK:
		return nil, unavailable(service, "answered "+strconv.Itoa(response.StatusCode)+words(body))
	}
	series, err := parse(body)
	if err != nil {
		return nil, unavailable(service, "answered what is not series of figures: "+err.Error())
	}
	return series, nil
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

func unavailable(service, what string) error {
	return reason.Errorf(reason.MetricsUnavailable, "Prometheus (service %s) %s", service, clean(what))
}

// cause returns why a request failed, without its URL.
func cause(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "it took too long"
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return err.Error()
}

// words returns the words of an answer that Prometheus gives to a request that it refuses.
func words(body []byte) string {
	var refusal struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &refusal) != nil || refusal.Error == "" {
		return ""
	}
	return ": " + refusal.Error
}

// clean returns text of another program as a short line.
func clean(text string) string {
	line := strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar:
			return -1
		case !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(line) > maxWords {
		return strings.ToValidUTF8(line[:maxWords], "") + "…"
	}
	return line
}

// answer is the part of an answer that is read.
type answer struct {
	Status string `json:"status"`
	Data   struct {
		ResultType string  `json:"resultType"`
		Result     results `json:"result"`
	} `json:"data"`
}

type results []metrics.Series

// UnmarshalJSON implements json.Unmarshaler.
func (r *results) UnmarshalJSON(text []byte) error {
	return each(text, maxSeries, "an answer has more than %d series", func(item *json.Decoder) error {
		var one struct {
			Metric struct {
				Namespace string `json:"namespace"`
				Pod       string `json:"pod"`
				Container string `json:"container"`
			} `json:"metric"`
			Values samples `json:"values"`
		}
		if err := item.Decode(&one); err != nil {
			return err
		}
		m := one.Metric
		if max(len(m.Namespace), len(m.Pod), len(m.Container)) > maxLabel {
			return errors.New("a label is longer than names in Kubernetes are")
		}
		*r = append(*r, metrics.Series{Namespace: m.Namespace, Pod: m.Pod, Container: m.Container, Points: one.Values})
		return nil
	})
}

// samples are points in order.
type samples []metrics.Point

// UnmarshalJSON implements json.Unmarshaler.
func (s *samples) UnmarshalJSON(text []byte) error {
	return each(text, maxPoints, "a series has more than the %d points that were asked for", func(item *json.Decoder) error {
		var at float64
		var value string
		pair := [2]any{&at, &value}
		if item.Decode(&pair) != nil || pair[0] == nil || pair[1] == nil || math.Abs(at) > 1e11 {
			return errors.New("a point is not a time and a text")
		}
		figure, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return errors.New("a point's text is not a number")
		}
		point := metrics.Point{Time: time.UnixMilli(int64(math.Round(at * 1000))), Value: figure}
		if n := len(*s); n > 0 && !point.Time.After((*s)[n-1].Time) {
			return errors.New("the points of a series are not in order")
		}
		*s = append(*s, point)
		return nil
	})
}

// each reads a list item by item, so that a long one costs no memory: it ends at the first item that is
// too many, with an error of the format. read decodes one item.
func each(text []byte, most int, tooMany string, read func(item *json.Decoder) error) error {
	items := json.NewDecoder(bytes.NewReader(text))
	if opening, err := items.Token(); err != nil || opening != json.Delim('[') {
		return errors.New("an answer has no list where one has to be")
	}
	for n := 0; items.More(); n++ {
		if n == most {
			return fmt.Errorf(tooMany, most)
		}
		if err := read(items); err != nil {
			return err
		}
	}
	return nil
}

func parse(body []byte) ([]metrics.Series, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, err
	}
	if a.Status != "success" || a.Data.ResultType != "matrix" {
		return nil, fmt.Errorf("status %.20q, type %.20q", a.Status, a.Data.ResultType)
	}
	return a.Data.Result, nil
}
