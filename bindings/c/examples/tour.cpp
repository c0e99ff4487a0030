// The same tasks in C++17.
#include "esker.hpp"

#include <iostream>

int main(int argc, char **argv) {
    const std::string dir = argc > 1 ? argv[1] : "data";
    esker::Db db(dir, esker::Settings().set("memory_bytes", "256MiB"));
    const auto users = db.keyspace("users");
    const auto visits = db.keyspace("visits", esker::KeyspaceSettings().set("merge", "append"));

    users.put("ada", "analyst");
    db.write(esker::Batch().put(users, "grace", "admiral").put(users, "gordon", "engineer").sync());
    std::cout << users.get("ada").value_or("nobody") << '\n';

    const auto before = db.snapshot();
    users.erase("ada");
    std::cout << users.contains("ada") << users.get("ada", before).has_value() << '\n';

    auto scan = users.scan("g");
    for (auto [key, value] : scan) std::cout << key << ": " << value << '\n';
    for (bool is_there = scan.last(); is_there; is_there = scan.prev())
        std::cout << scan.entry()->key << '\n';

    db.transact([&](const esker::Transaction &tx) {
        tx.put(users, "linus", "maintainer");
        for (auto [key, value] : tx.scan(users, "l")) std::cout << key << ": " << value << '\n';
    });
    visits.erase("page");
    visits.merge("page", "a");
    visits.merge("page", "b");
    std::cout << *visits.get("page") << '\n';

    try {
        db.keyspace("a\nb");
    } catch (const esker::Error &error) {
        std::cout << (error.status() == ESKER_BAD_KEYSPACE_NAME) << '\n';
    }
    db.close();
    // A cursor outlives its database safely.
    try {
        scan.next();
        return 1;
    } catch (const esker::Error &error) {
        std::cout << error.what() << '\n';
    }
}
