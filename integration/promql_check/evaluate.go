// Evaluates expressions on scrapes with Prometheus' engine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// A value at a time, in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// The samples of a series, in the order of their times.
type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// All series, by their labels.
type store map[string]*series

func (s store) add(lset labels.Labels, at int64, value float64) {
	key := lset.String()
	if s[key] == nil {
		s[key] = &series{labels: lset}
	}
	s[key].samples = append(s[key].samples, sample{at, value})
}

// Adds what a target responded at a time, with the labels that Prometheus gives it.
func (s store) scrape(text []byte, at int64) error {
	p := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry == textparse.EntrySeries {
			var own labels.Labels
			p.Labels(&own)
			_, _, value := p.Series()
			s.add(ofTarget(labels.NewBuilder(own)), at, value)
		}
	}
}

func ofTarget(b *labels.Builder) labels.Labels {
	return b.Set("job", "hostlet").Set("instance", "node:10250").Labels()
}

// Reads the files of a directory in the order of their times. Returns the last one.
func (s store) read(dir string) (int64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return 0, err
	}
	times := map[string]int64{}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return 0, err
		}
		times[file] = info.ModTime().UnixMilli()
	}
	slices.SortFunc(files, func(a, b string) int { return int(times[a] - times[b]) })
	last := int64(0)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		if err := s.scrape(text, times[file]); err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		last = times[file]
	}
	if last == 0 {
		return 0, fmt.Errorf("%s has no scrape", dir)
	}
	s.add(ofTarget(labels.NewBuilder(labels.FromStrings("__name__", "up"))), last, 1)
	return last, nil
}

func (s store) selected(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &set{at: -1}
	for _, series := range s {
		matches := func(m *labels.Matcher) bool { return m.Matches(series.labels.Get(m.Name)) }
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !matches(m) }) {
			found.series = append(found.series, storage.NewListSeries(series.labels, series.samples))
		}
	}
	return found
}

type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

// A line for each expression, the recordings first: the others use them.
func (c *checker) evaluate(dir string) []string {
	samples := store{}
	last, err := samples.read(dir)
	if err != nil {
		c.fault("%v", err)
		return nil
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 24, Timeout: time.Minute, Parser: c.parser})
	queryable := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: samples.selected}}
	slices.SortStableFunc(c.queries, func(a, b query) int {
		switch {
		case a.recorded == b.recorded:
			return 0
		case a.recorded:
			return -1
		default:
			return 1
		}
	})
	lines := []string{}
	for _, query := range c.queries {
		for _, expr := range alternatives(query.expr) {
			text := withoutLimits(expr).String()
			found, err := run(engine, queryable, text, last)
			if err != nil {
				c.fault("%s: %s: %v", query.owner, text, err)
				continue
			}
			number := 0
			for _, sample := range found {
				if !math.IsNaN(sample.F) {
					number++
				}
				if query.recorded {
					name := labels.NewBuilder(sample.Metric).Set("__name__", query.owner)
					samples.add(name.Labels(), last, sample.F)
				}
			}
			lines = append(lines, fmt.Sprintf("%d\t%s\t%s", number, query.owner, text))
		}
	}
	return lines
}

func run(engine *promql.Engine, queryable storage.Queryable, text string, at int64) (promql.Vector, error) {
	ctx := context.Background()
	query, err := engine.NewInstantQuery(ctx, queryable, nil, text, time.UnixMilli(at))
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	return result.Vector()
}

// The expressions of which one suffices. One that only stands for nothing, as in `… or vector(0)`, is none of them.
func alternatives(expr parser.Expr) []parser.Expr {
	switch expr := expr.(type) {
	case *parser.ParenExpr:
		return alternatives(expr.Expr)
	case *parser.BinaryExpr:
		if expr.Op == parser.LOR {
			return append(alternatives(expr.LHS), alternatives(expr.RHS)...)
		}
	case *parser.Call:
		if expr.Func.Name == "vector" {
			return nil
		}
	}
	return []parser.Expr{expr}
}

// The expression without its comparisons with numbers.
func withoutLimits(expr parser.Expr) parser.Expr {
	switch expr := expr.(type) {
	case *parser.BinaryExpr:
		expr.LHS, expr.RHS = withoutLimits(expr.LHS), withoutLimits(expr.RHS)
		if _, isNumber := expr.RHS.(*parser.NumberLiteral); isNumber && expr.Op.IsComparisonOperator() && !expr.ReturnBool {
			return expr.LHS
		}
	case *parser.AggregateExpr:
		expr.Expr = withoutLimits(expr.Expr)
	case *parser.ParenExpr:
		expr.Expr = withoutLimits(expr.Expr)
	case *parser.UnaryExpr:
		expr.Expr = withoutLimits(expr.Expr)
	case *parser.SubqueryExpr:
		expr.Expr = withoutLimits(expr.Expr)
	case *parser.Call:
		for i, argument := range expr.Args {
			expr.Args[i] = withoutLimits(argument)
		}
	}
	return expr
}
