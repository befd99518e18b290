// Checks Prometheus rules (*.yaml) and Grafana dashboards (*.json) with Prometheus' own parsers: every rule as `promtool check rules`
// does, with the templates of its annotations, and every expression of a panel. Prints the metrics that they use.
//
// With scrapes, each file of DIR being the response of a target at the time when it was modified, evaluates every expression at the time of
// the last one with Prometheus' engine, and prints a line for each: how many series it returns, whose it is, and the expression. What only
// a fault makes true is left out before, such as `> 0.05`.
//
// usage: promql-check [-scrapes DIR] FILE...
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// What Grafana replaces: intervals, and in strings what the user selected, here everything.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h", "$job", ".+", "$instance", ".+")

// An expression, and whose it is.
type query struct {
	owner string
	// Whether its result is a series of the owner's name.
	recorded bool
	expr     parser.Expr
}

type checker struct {
	parser   parser.Parser
	queries  []query
	used     map[string]bool
	recorded map[string]bool
	faults   []string
}

func main() {
	scrapes := flag.String("scrapes", "", "directory of scrapes")
	flag.Parse()
	c := &checker{
		parser:   parser.NewParser(parser.Options{}),
		used:     map[string]bool{},
		recorded: map[string]bool{},
	}
	for _, file := range flag.Args() {
		if filepath.Ext(file) == ".json" {
			c.dashboard(file)
		} else {
			c.rules(file)
		}
	}
	for name := range c.used {
		// Names with a colon are those of recordings.
		if strings.Contains(name, ":") && !c.recorded[name] {
			c.fault("%s is recorded by no rule", name)
		}
	}
	if len(c.used) == 0 {
		c.fault("no expression was found")
	}
	output := []string{}
	if *scrapes == "" {
		for name := range c.used {
			output = append(output, name)
		}
		slices.Sort(output)
	} else if len(c.faults) == 0 {
		output = c.evaluate(*scrapes)
	}
	if len(c.faults) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(c.faults, "\n"))
		os.Exit(1)
	}
	fmt.Println(strings.Join(output, "\n"))
}

func (c *checker) fault(format string, arguments ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, arguments...))
}

func (c *checker) rules(file string) {
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, c.parser, slog.Default())
	for _, err := range errs {
		c.fault("%v", err)
	}
	if groups == nil {
		return
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				c.recorded[rule.Record] = true
			}
			c.expression(file, rule.Record+rule.Alert, rule.Record != "", rule.Expr)
		}
	}
}

func (c *checker) dashboard(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		c.fault("%v", err)
		return
	}
	var content any
	if err := json.Unmarshal(text, &content); err != nil {
		c.fault("%s: %v", file, err)
		return
	}
	c.walk(file, "", content)
}

// Finds the expressions of panels wherever they are.
func (c *checker) walk(file, panel string, value any) {
	switch value := value.(type) {
	case map[string]any:
		if title, hasTitle := value["title"].(string); hasTitle {
			panel = title
		}
		for key, inner := range value {
			if text, isText := inner.(string); isText && key == "expr" {
				c.expression(file, panel, false, variables.Replace(text))
			} else {
				c.walk(file, panel, inner)
			}
		}
	case []any:
		for _, inner := range value {
			c.walk(file, panel, inner)
		}
	}
}

func (c *checker) expression(file, owner string, recorded bool, text string) {
	expr, err := c.parser.ParseExpr(text)
	if err != nil {
		c.fault("%s: %s: %v", file, text, err)
		return
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, isSelector := node.(*parser.VectorSelector); isSelector {
			c.used[selector.Name] = true
		}
		return nil
	})
	c.queries = append(c.queries, query{owner, recorded, expr})
}
